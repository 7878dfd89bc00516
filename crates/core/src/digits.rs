//! Numbers in texts from other programs: digits and nothing else.
//!
//! [`str::parse`] and `from_str_radix` accept a sign before the digits, so that a `0` that turns into a `+` goes
//! unnoticed. No format that pinfold reads has such a sign.

use std::str::FromStr;

/// A number of decimal digits; `None` for any other text, and for a number that the type does not hold.
pub fn decimal<T: FromStr>(text: &str) -> Option<T> {
    let digits_only = text.bytes().all(|byte| byte.is_ascii_digit());
    digits_only.then(|| text.parse().ok()).flatten()
}

/// A number of octal digits; `None` for any other text, and for a number that the type does not hold.
pub fn octal<T: TryFrom<u128>>(text: &str) -> Option<T> {
    in_base(text, 8)
}

/// A number of hexadecimal digits, in either case and without a prefix; `None` for any other text, and for a number
/// that the type does not hold.
pub fn hexadecimal<T: TryFrom<u128>>(text: &str) -> Option<T> {
    in_base(text, 16)
}

fn in_base<T: TryFrom<u128>>(text: &str, base: u32) -> Option<T> {
    let digits_only = text.chars().all(|character| character.is_digit(base));
    let number = digits_only.then(|| u128::from_str_radix(text, base).ok()).flatten()?;
    number.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_a_number() {
        assert_eq!(decimal("0042"), Some(42u8));
        assert_eq!(octal("0660"), Some(0o660u32));
        assert_eq!(hexadecimal("00fF"), Some(255u8));
        assert_eq!(hexadecimal(&"f".repeat(32)), Some(u128::MAX));
    }

    #[test]
    fn a_sign_is_no_digit() {
        for text in ["", "+", "+1", "-1", "-0", " 1", "1 ", "1_0", "0x1", "\u{0661}"] {
            assert_eq!(decimal::<i32>(text), None, "{text}");
            assert_eq!(octal::<u32>(text), None, "{text}");
            assert_eq!(hexadecimal::<u32>(text), None, "{text}");
        }
        assert_eq!((octal::<u32>("8"), hexadecimal::<u32>("g")), (None, None));
    }

    #[test]
    fn a_number_that_the_type_does_not_hold_is_none() {
        assert_eq!(decimal::<u8>("256"), None);
        assert_eq!(hexadecimal::<u8>("100"), None);
        assert_eq!(hexadecimal::<u128>(&"f".repeat(33)), None);
    }
}
