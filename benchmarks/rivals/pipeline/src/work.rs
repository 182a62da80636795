//! What stages do, and how the producer learns that all has arrived.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

/// Arithmetic that takes a known time: multiplications that wait for each other.
#[derive(Clone, Copy)]
pub struct Work {
    step_count: u32,
}

impl Work {
    pub fn of_ns(ns: f64) -> Self {
        const STEP_COUNT: u32 = 100_000;
        let sample = || {
            let started = Instant::now();
            let work = Self {
                step_count: STEP_COUNT,
            };
            work.burn();
            started.elapsed().as_nanos() as f64 / f64::from(STEP_COUNT)
        };
        // The least of many: what is more was somebody else.
        let step_ns = (0..50).map(|_| sample()).fold(f64::INFINITY, f64::min);
        Self {
            step_count: (ns / step_ns) as u32,
        }
    }

    #[inline]
    pub fn burn(self) {
        let mut number = 1_u64;
        for _ in 0..self.step_count {
            number = black_box(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
}

/// Where the last stage says that the last item is there.
#[derive(Default)]
pub struct Arrival {
    last: AtomicU64,
    sum: AtomicU64,
    is_there: AtomicU64,
    /// CPU time of the first stage's thread when it saw the last item.
    serial_cpu: AtomicU64,
    producer: Mutex<Option<Thread>>,
}

impl Arrival {
    pub fn expect(&self, count: u64) {
        self.last.store(count - 1, Ordering::Relaxed);
        self.is_there.store(0, Ordering::Relaxed);
        *self.producer.lock().unwrap() = Some(thread::current());
    }

    pub fn wait(&self) -> u64 {
        while self.is_there.load(Ordering::Acquire) == 0 {
            thread::park();
        }
        self.sum.load(Ordering::Relaxed)
    }

    pub fn serial_cpu(&self) -> u64 {
        self.serial_cpu.load(Ordering::Relaxed)
    }

    pub fn last(&self) -> u64 {
        // Written before the first item is pushed.
        self.last.load(Ordering::Relaxed)
    }

    pub fn see_serial(&self) {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let time = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        self.serial_cpu.store(time, Ordering::Relaxed);
    }

    pub fn see_last(&self, sum: u64) {
        self.sum.store(sum, Ordering::Relaxed);
        let producer = self.producer.lock().unwrap().clone();
        self.is_there.store(1, Ordering::Release);
        producer.unwrap().unpark();
    }
}

/// The first stage's part for an item.
pub struct First<'a> {
    pub arrival: &'a Arrival,
    pub work: Work,
}

impl First<'_> {
    #[inline]
    pub fn see(&self, item: u64) {
        self.work.burn();
        if item == self.arrival.last() {
            self.arrival.see_serial();
        }
    }
}

/// The last stage's part for an item.
#[derive(Default)]
pub struct Last {
    sum: u64,
}

impl Last {
    #[inline]
    pub fn see(&mut self, item: u64, arrival: &Arrival) {
        self.sum = self.sum.wrapping_add(item);
        if item == arrival.last() {
            arrival.see_last(self.sum);
            self.sum = 0;
        }
    }
}
