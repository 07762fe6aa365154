//! Floats of 16 bits: one bit of sign, five of exponent, ten of fraction.

/// The value of a 16-bit float.
pub(super) fn half_precision(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2_f64.powi(-24),
        0x1f if fraction == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + fraction) * 2_f64.powi(exponent - 25),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}

/// The 16-bit float of exactly this value, if there is one.
pub(super) fn exact_half(value: f32) -> Option<u16> {
    let bits = value.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let (exponent, fraction) = ((bits >> 23 & 0xff) as i32 - 127, bits & 0x007f_ffff);
    let (whole, dropped) = match exponent {
        _ if value == 0.0 => (0, 0),
        // Ten of the 23 bits of the fraction are left, under the exponent.
        -14..=15 => (((exponent + 15) as u32) << 23 | fraction, 13),
        // Below the least exponent the leading one is spelt out and moves down.
        -24..=-15 => (0x0080_0000 | fraction, (-1 - exponent) as u32),
        _ => return None,
    };
    let kept = whole >> dropped;
    (kept << dropped == whole).then_some(sign | kept as u16)
}
