//! Floats of 32 bits as ours of 64.

/// The double that is written with the digits that the server writes: `0.1`, where a cast gives
/// 0.10000000149011612. It becomes the same `float4` again.
pub(super) fn widen(float: f32) -> f64 {
    // Up to here every integer is a float, and digits and value are one.
    const INTEGER_MAX: f32 = 16_777_216.0;
    let exact = f64::from(float);
    if !float.is_finite() || (float.fract() == 0.0 && float.abs() <= INTEGER_MAX) {
        return exact;
    }
    // The shortest digits that round to the float. Where they lie half-way to its neighbour, the
    // server takes more (`float_to_shortest_decimal_buf`); half-way is a double, so that this is exact.
    let half_way = |neighbour: f32| exact + (f64::from(neighbour) - exact) / 2.0;
    let (low, high) = (half_way(float.next_down()), half_way(float.next_up()));
    let parsed = |digits: &str| digits.parse::<f64>().expect("a float's digits are a float");
    let is_inside = |wide: f64| low < wide && wide < high;
    let shortest = parsed(ryu::Buffer::new().format_finite(float));
    if is_inside(shortest) {
        return shortest;
    }
    let mut longer = (1..9).map(|digit_count| parsed(&format!("{float:.digit_count$e}")));
    longer.find(|&wide| is_inside(wide)).unwrap_or(exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_the_digits_of_the_server() {
        for (float, expected) in [
            (0.1, 0.1),
            (-0.0, -0.0),
            (16_777_216.0, 16_777_216.0),
            (f32::MAX, 3.402_823_5e38),
            (f32::MIN_POSITIVE, 1.175_494_4e-38),
            (f32::from_bits(1), 1e-45),
            (8_589_934_592.0, 8_589_935_000.0),
            // The shortest digits, 8.166862e7 and 4.873287e7, lie half-way to the next float.
            (-81_668_624.0, -81_668_624.0),
            (48_732_872.0, 48_732_872.0),
            (f32::NEG_INFINITY, f64::NEG_INFINITY),
        ] {
            let wide = widen(float);
            assert_eq!(wide.to_bits(), f64::to_bits(expected), "{float}: {wide}");
            assert_eq!((wide as f32).to_bits(), float.to_bits());
        }
        assert!(widen(f32::NAN).is_nan());
    }
}
