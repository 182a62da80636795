//! MessagePack (<https://github.com/msgpack/msgpack/blob/master/spec.md>): each value in its
//! shortest encoding.
//!
//! Writing it takes a page of code, so no crate is used; reading it is not needed here.

use lookaside_knowledge::Value;

/// Appends a value. Decimals, times, addresses, networks and UUIDs are texts, as in JSON.
pub(super) fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Ignore => out.push(0xc0),
        Value::Bool(bool) => out.push(if *bool { 0xc3 } else { 0xc2 }),
        Value::Int(int) => write_int(*int, out),
        Value::Float(float) => {
            out.push(0xcb);
            out.extend_from_slice(&float.to_be_bytes());
        }
        Value::Text(text) => write_str(text, out),
        Value::Symbol(text) => write_str(text, out),
        Value::Bytes(bytes) => {
            write_size(bytes.len(), [Some(0xc4), Some(0xc5), Some(0xc6)], out);
            out.extend_from_slice(bytes);
        }
        Value::Array(items) => {
            write_array_size(items.len(), out);
            items.iter().for_each(|item| write(item, out));
        }
        Value::Object(object) => {
            write_map_size(object.iter().len(), out);
            for (name, value) in object.iter() {
                write_str(name, out);
                write(value, out);
            }
        }
        plain => write_str(&plain.to_text(), out),
    }
}

fn write_int(int: i64, out: &mut Vec<u8>) {
    match int {
        // Both fixint formats are the lowest byte of the number.
        -32..=127 => out.push(int as u8),
        -128..=-33 => out.extend_from_slice(&[0xd0, int as u8]),
        128..=255 => out.extend_from_slice(&[0xcc, int as u8]),
        _ => {
            if let Ok(int) = u16::try_from(int) {
                out.push(0xcd);
                out.extend_from_slice(&int.to_be_bytes());
            } else if let Ok(int) = i16::try_from(int) {
                out.push(0xd1);
                out.extend_from_slice(&int.to_be_bytes());
            } else if let Ok(int) = u32::try_from(int) {
                out.push(0xce);
                out.extend_from_slice(&int.to_be_bytes());
            } else if let Ok(int) = i32::try_from(int) {
                out.push(0xd2);
                out.extend_from_slice(&int.to_be_bytes());
            } else {
                out.push(if int < 0 { 0xd3 } else { 0xcf });
                out.extend_from_slice(&int.to_be_bytes());
            }
        }
    }
}

/// Appends a text.
pub(super) fn write_str(text: &str, out: &mut Vec<u8>) {
    match text.len() {
        // At most five bits.
        size @ 0..=31 => out.push(0xa0 | size as u8),
        size => write_size(size, [Some(0xd9), Some(0xda), Some(0xdb)], out),
    }
    out.extend_from_slice(text.as_bytes());
}

/// Appends the header of an array.
pub(super) fn write_array_size(count: usize, out: &mut Vec<u8>) {
    match count {
        // At most four bits.
        0..=15 => out.push(0x90 | count as u8),
        _ => write_size(count, [None, Some(0xdc), Some(0xdd)], out),
    }
}

/// Appends the header of a map.
pub(super) fn write_map_size(count: usize, out: &mut Vec<u8>) {
    match count {
        // At most four bits.
        0..=15 => out.push(0x80 | count as u8),
        _ => write_size(count, [None, Some(0xde), Some(0xdf)], out),
    }
}

/// Appends a marker and the size in one, two or four bytes.
fn write_size(size: usize, [one, two, four]: [Option<u8>; 3], out: &mut Vec<u8>) {
    if let (Ok(size), Some(marker)) = (u8::try_from(size), one) {
        out.extend_from_slice(&[marker, size]);
    } else if let (Ok(size), Some(marker)) = (u16::try_from(size), two) {
        out.push(marker);
        out.extend_from_slice(&size.to_be_bytes());
    } else {
        let size = u32::try_from(size).expect("no value has four billion parts");
        out.push(four.expect("every form has one of four bytes"));
        out.extend_from_slice(&size.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(value: impl Into<Value>) -> Vec<u8> {
        let mut out = Vec::new();
        write(&value.into(), &mut out);
        out
    }

    #[test]
    fn integers_take_their_smallest_form() {
        for (int, expected) in [
            (0, &[0x00][..]),
            (127, &[0x7f]),
            (128, &[0xcc, 0x80]),
            (255, &[0xcc, 0xff]),
            (256, &[0xcd, 1, 0]),
            (65_535, &[0xcd, 0xff, 0xff]),
            (65_536, &[0xce, 0, 1, 0, 0]),
            (1 << 32, &[0xcf, 0, 0, 0, 1, 0, 0, 0, 0]),
            (i64::MAX, &[0xcf, 0x7f, 255, 255, 255, 255, 255, 255, 255]),
            (-1, &[0xff]),
            (-32, &[0xe0]),
            (-33, &[0xd0, 0xdf]),
            (-128, &[0xd0, 0x80]),
            (-129, &[0xd1, 0xff, 0x7f]),
            (-32_769, &[0xd2, 0xff, 0xff, 0x7f, 0xff]),
            (i64::MIN, &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(packed(int), expected, "{int}");
        }
    }

    #[test]
    fn other_values() {
        assert_eq!(packed(Value::Null), [0xc0]);
        assert_eq!(packed(true), [0xc3]);
        assert_eq!(packed(1.5), [0xcb, 0x3f, 0xf8, 0, 0, 0, 0, 0, 0]);
        assert_eq!(packed("a"), [0xa1, b'a']);
        assert_eq!(packed(vec![1_u8]), [0xc4, 1, 1]);
        let list = vec![Value::Int(1), Value::Null];
        assert_eq!(packed(list), [0x92, 1, 0xc0]);
        let ip = Value::Ip([10, 0, 0, 1].into());
        assert_eq!(packed(ip)[..3], [0xa8, b'1', b'0']);
        for (size, head) in [
            (31, &[0xbf][..]),
            (32, &[0xd9, 32]),
            (256, &[0xda, 1, 0]),
            (65_536, &[0xdb, 0, 1, 0, 0]),
        ] {
            let text = packed("x".repeat(size).as_str());
            assert_eq!(&text[..head.len()], head);
            assert_eq!(text.len(), head.len() + size);
        }
        let many = packed(vec![Value::Null; 16]);
        assert_eq!(many[..3], [0xdc, 0, 16]);
        let mut map = Vec::new();
        write_map_size(16, &mut map);
        assert_eq!(map, [0xde, 0, 16]);
    }
}
