//! Input as it should not be: a good one of which some places are changed.

use proptest::prelude::*;

/// How often every parser is tried.
pub(crate) const INPUTS: u32 = 4096;

/// One change. Places are shares of the length, in 65536ths, so that they fit inputs of any length.
#[derive(Clone, Debug)]
enum Change {
    Remove { at: u16, length: u8 },
    Repeat { at: u16, length: u8 },
    Insert { at: u16, bytes: Vec<u8> },
    Flip { at: u16, bits: u8 },
    Number { at: u16, by: &'static str },
    End { at: u16 },
}

/// Numbers at which arithmetic ends.
const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "255",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "1e400",
    "nan",
];

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<u16>(), any::<u8>()).prop_map(|(at, length)| Change::Remove { at, length }),
        (any::<u16>(), any::<u8>()).prop_map(|(at, length)| Change::Repeat { at, length }),
        (any::<u16>(), prop::collection::vec(any::<u8>(), 1..9)).prop_map(|(at, bytes)| Change::Insert { at, bytes }),
        (any::<u16>(), 1u8..).prop_map(|(at, bits)| Change::Flip { at, bits }),
        (any::<u16>(), prop::sample::select(&NUMBERS[..])).prop_map(|(at, by)| Change::Number { at, by }),
        any::<u16>().prop_map(|at| Change::End { at }),
    ]
}

impl Change {
    fn make(&self, input: &mut Vec<u8>) {
        let place = |at: u16| usize::from(at) * input.len() / 65536;
        match self {
            Self::Remove { at, length } => {
                let at = place(*at);
                let end = (at + usize::from(*length)).min(input.len());
                input.drain(at..end);
            }
            Self::Repeat { at, length } => {
                let at = place(*at);
                let end = (at + usize::from(*length)).min(input.len());
                let again = input[at..end].to_vec();
                input.splice(at..at, again);
            }
            Self::Insert { at, bytes } => {
                let at = place(*at);
                input.splice(at..at, bytes.iter().copied());
            }
            Self::Flip { at, bits } => {
                let at = place(*at);
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Self::Number { at, by } => {
                let from = place(*at);
                let digits = |from: usize, wanted: bool| {
                    input[from..]
                        .iter()
                        .position(|byte| byte.is_ascii_digit() == wanted)
                        .map_or(input.len(), |place| from + place)
                };
                let begin = digits(from, true);
                let end = digits(begin, false);
                input.splice(begin..end, by.bytes());
            }
            Self::End { at } => input.truncate(place(*at)),
        }
    }
}

/// One of these inputs with up to six changes.
pub(crate) fn spoiled(good: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (prop::sample::select(good), prop::collection::vec(change(), 0..7)).prop_map(|(mut input, changes)| {
        for change in changes {
            change.make(&mut input);
        }
        input
    })
}

/// The same for text.
#[allow(dead_code, reason = "some parsers take bytes, some text")]
pub(crate) fn spoiled_text(good: &[&str]) -> impl Strategy<Value = String> + use<> {
    let good = good.iter().map(|text| text.as_bytes().to_vec()).collect();
    spoiled(good).prop_map(|input| String::from_utf8_lossy(&input).into_owned())
}
