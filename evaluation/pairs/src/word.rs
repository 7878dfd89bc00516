//! Sets of samples as bits: one machine word, two, or four.

use std::fmt::Debug;
use std::ops::{BitAnd, BitOr};

/// A set of places, the first in the lowest bit.
pub(crate) trait Word:
    Copy + Debug + Default + PartialEq + Send + Sync + BitAnd<Output = Self> + BitOr<Output = Self>
{
    /// The set of one place.
    fn of(place: usize) -> Self;

    /// The set of this place and all before it.
    fn up_to(place: usize) -> Self;

    /// The places of this set that are not in another one.
    fn without(self, other: Self) -> Self;

    fn is_empty(self) -> bool;

    /// The first place of a set that is not empty.
    fn first(self) -> usize;

    /// The last place of a set that is not empty.
    fn last(self) -> usize;

    /// The set without its first place.
    fn rest(self) -> Self;

    /// The places, in their order.
    #[inline]
    fn places(mut self) -> impl Iterator<Item = usize> {
        std::iter::from_fn(move || {
            (!self.is_empty()).then(|| {
                let place = self.first();
                self = self.rest();
                place
            })
        })
    }
}

macro_rules! word {
    ($word:ty) => {
        impl Word for $word {
            #[inline]
            fn of(place: usize) -> Self {
                1 << (place % Self::BITS as usize)
            }

            #[inline]
            fn up_to(place: usize) -> Self {
                Self::MAX >> (Self::BITS as usize - 1 - place % Self::BITS as usize)
            }

            #[inline]
            fn without(self, other: Self) -> Self {
                self & !other
            }

            #[inline]
            fn is_empty(self) -> bool {
                self == 0
            }

            #[inline]
            fn first(self) -> usize {
                self.trailing_zeros() as usize
            }

            #[inline]
            fn last(self) -> usize {
                Self::BITS as usize - 1 - self.leading_zeros() as usize
            }

            #[inline]
            fn rest(self) -> Self {
                self & (self - 1)
            }
        }
    };
}

word!(u64);
word!(u128);

/// Four words of 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Words([u64; 4]);

impl Words {
    fn each(self, other: Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let mut joined = self;
        for (one, other) in joined.0.iter_mut().zip(other.0) {
            *one = join(*one, other);
        }
        joined
    }
}

impl BitAnd for Words {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        self.each(other, |one, other| one & other)
    }
}

impl BitOr for Words {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        self.each(other, |one, other| one | other)
    }
}

impl Word for Words {
    fn of(place: usize) -> Self {
        let mut set = Self::default();
        set.0[place / 64] = 1 << (place % 64);
        set
    }

    fn up_to(place: usize) -> Self {
        let mut set = Self::default();
        set.0[..place / 64].fill(u64::MAX);
        set.0[place / 64] = u64::up_to(place);
        set
    }

    fn without(self, other: Self) -> Self {
        self.each(other, |one, other| one & !other)
    }

    fn is_empty(self) -> bool {
        self.0 == [0; 4]
    }

    fn first(self) -> usize {
        let word = self.0.iter().position(|&word| word != 0).unwrap_or(0);
        64 * word + self.0[word].first()
    }

    fn last(self) -> usize {
        let word = self.0.iter().rposition(|&word| word != 0).unwrap_or(0);
        64 * word + self.0[word].last()
    }

    fn rest(mut self) -> Self {
        if let Some(word) = self.0.iter_mut().find(|word| **word != 0) {
            *word = word.rest();
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_sets<W: Word>(places: &[usize]) {
        let set = places.iter().fold(W::default(), |set, &place| set | W::of(place));
        assert_eq!(set.places().collect::<Vec<_>>(), places);
        assert_eq!((set.first(), set.last()), (places[0], places[places.len() - 1]));
        assert_eq!(set.rest().places().collect::<Vec<_>>(), places[1..]);
        for (number, &place) in places.iter().enumerate() {
            let low = set & W::up_to(place);
            assert_eq!(low.places().collect::<Vec<_>>(), places[..=number]);
            assert_eq!(set.without(low).places().collect::<Vec<_>>(), places[number + 1..]);
        }
        assert!(set.without(set).is_empty() && !set.is_empty());
    }

    #[test]
    fn words_of_every_size_are_sets_of_places() {
        are_sets::<u64>(&[0, 5, 6, 62, 63]);
        are_sets::<u128>(&[0, 63, 64, 100, 127]);
        are_sets::<Words>(&[0, 63, 64, 127, 128, 200, 255]);
        are_sets::<Words>(&[130]);
    }
}
