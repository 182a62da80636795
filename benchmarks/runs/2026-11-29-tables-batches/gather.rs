use std::hint::black_box;
use std::time::Instant;
fn main() {
    let n = 10_000_000usize;
    let mut x = 88172645463325252u64;
    let mut r = || -> u64 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let slots: Vec<u32> = (0..n as u32).collect();
    let rows: Vec<u8> = (0..n * 10 + 16).map(|i| i as u8).collect();
    let keys: Vec<[u64; 3]> = (0..1 << 20).map(|_| [0, (r() % n as u64), 0]).collect();
    for _ in 0..3 {
        let t = Instant::now();
        let mut sum = 0u64;
        let mut buf = [0u32; 64];
        for c in keys.chunks(64) {
            for (k, b) in c.iter().zip(&mut buf) {
                *b = slots[k[1] as usize];
            }
            black_box(&buf);
            let mut l = 0u8;
            for b in &buf {
                l ^= rows[*b as usize * 10];
            }
            black_box(l);
            for b in &buf {
                let at = *b as usize * 10;
                sum += u64::from_le_bytes(rows[at..at + 8].try_into().unwrap());
            }
        }
        black_box(sum);
        println!(
            "block {:.1} ns",
            t.elapsed().as_nanos() as f64 / keys.len() as f64
        );
        let t = Instant::now();
        let mut sum = 0u64;
        for k in &keys {
            let at = slots[((k[1] as usize) + (sum as usize & 1)) % n] as usize * 10;
            sum += u64::from_le_bytes(rows[at..at + 8].try_into().unwrap());
        }
        black_box(sum);
        println!(
            "dependent {:.1} ns",
            t.elapsed().as_nanos() as f64 / keys.len() as f64
        );
    }
}
