//! What a reader of a record knows of the record's policy. The list of policies has it (`pinfold run --help`).

/// What a policy decides on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecidesOn {
    /// One placement of the whole program.
    #[default]
    Program,
    /// Moves of single tasks.
    Tasks,
    /// A configuration of each parallel region.
    Regions,
    /// Nothing: it leaves threads to the operating system.
    Nothing,
}

/// A policy, for readers of its records. The default is a policy that is unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct PolicyKind<'a> {
    /// What it does: a clause whose subject is its name.
    pub does: Option<&'a str>,
    /// What it decides on.
    pub decides_on: DecidesOn,
}
