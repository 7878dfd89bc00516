//! What is searched, and why it cannot be.

/// The most samples: a class may have all of them, and a count is a byte.
const SAMPLES: usize = u8::MAX as usize;

/// The most classes.
pub(crate) const CLASSES: usize = 16;

/// What is searched.
#[derive(Clone, Debug)]
pub struct Problem {
    /// The values of all samples, for one feature after the other.
    pub features: Vec<f32>,
    /// The class of each sample.
    pub labels: Vec<u8>,
    /// The logarithm of the speed-up of each sample in the configuration of each class, for one sample after the other.
    pub gains: Vec<f64>,
    /// The number of classes.
    pub classes: usize,
    /// The fold of each sample, in which it is predicted.
    pub folds: Vec<u8>,
}

/// Why a problem cannot be searched.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProblemError {
    /// There are too many samples for a word, or none.
    #[error("there are {0} samples, and the search has room for 2 to {SAMPLES}")]
    Samples(usize),
    /// There are too many classes, or none.
    #[error("there are {0} classes, and the search has room for 1 to {CLASSES}")]
    Classes(usize),
    /// All samples are of one class, so that there is nothing to choose.
    #[error("all samples are of one class: there is nothing to choose")]
    OneClass,
    /// There is one fold, and nothing would be learned from.
    #[error("all samples are in one fold: a sample is predicted from the other folds, so there must be two or more")]
    OneFold,
    /// An array is of another length than the others ask for.
    #[error("{what} has {found} values, and must have {wanted}")]
    Length {
        /// The array.
        what: &'static str,
        /// Its length.
        found: usize,
        /// The length that the others ask for.
        wanted: usize,
    },
    /// A value is no finite number, or a class is out of range.
    #[error("{what} of sample {sample} is not valid")]
    Value {
        /// The array.
        what: &'static str,
        /// The sample, from 0.
        sample: usize,
    },
}

impl Problem {
    /// Whether the search has room for it, and its arrays fit each other.
    pub(crate) fn check(&self) -> Result<(), ProblemError> {
        let samples = self.labels.len();
        if !(2..=SAMPLES).contains(&samples) {
            return Err(ProblemError::Samples(samples));
        }
        if !(1..=CLASSES).contains(&self.classes) {
            return Err(ProblemError::Classes(self.classes));
        }
        let length = |what, found, wanted| {
            (found == wanted)
                .then_some(())
                .ok_or(ProblemError::Length { what, found, wanted })
        };
        length("gains", self.gains.len(), samples * self.classes)?;
        length("folds", self.folds.len(), samples)?;
        let features = self.features.len() / samples;
        length("features", self.features.len(), features * samples)?;
        let invalid = |what, sample: Option<usize>| match sample {
            Some(sample) => Err(ProblemError::Value { what, sample }),
            None => Ok(()),
        };
        let place = self.features.iter().position(|value| !value.is_finite());
        invalid("a feature", place.map(|place| place % samples))?;
        let place = self.gains.iter().position(|value| !value.is_finite());
        invalid("a gain", place.map(|place| place / self.classes))?;
        let wrong = |&class: &u8| usize::from(class) >= self.classes;
        invalid("the class", self.labels.iter().position(wrong))?;
        let is_same = |values: &[u8]| values.iter().all(|value| *value == values[0]);
        match (is_same(&self.labels), is_same(&self.folds)) {
            (true, _) => Err(ProblemError::OneClass),
            (_, true) => Err(ProblemError::OneFold),
            _ => Ok(()),
        }
    }
}
