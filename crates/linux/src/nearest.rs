//! The names nearest to one that does not exist, for error messages.

/// The minimum similarity of two names for a suggestion: 1 is equal, 0 has nothing in common. Two typing errors in a
/// name of five letters are just within it.
const LEAST_SIMILARITY: f64 = 0.6;

/// The similarity of a name that contains the other: higher than for most misspellings.
const CONTAINED: f64 = 0.8;

/// The number of names in a message.
const OFFERED: usize = 3;

/// The names among `candidates` that are most similar to `name`, the best first, at most three. Case is ignored. For a
/// qualified name (`a::b`) its last part alone is compared as well.
pub(crate) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    most_like(name, candidates, similarity)
}

/// The names that `name` may be a misspelling of: like `nearest`, without names that merely contain it.
pub(crate) fn misspelt<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    most_like(name, candidates, spelling)
}

fn most_like<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
    similarity: fn(&str, &str) -> f64,
) -> Vec<String> {
    let wanted = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = candidates
        .into_iter()
        .map(|candidate| (similarity(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|&(score, _)| score >= LEAST_SIMILARITY)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored
        .into_iter()
        .take(OFFERED)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}

fn spelling(wanted: &str, candidate: &str) -> f64 {
    let last = candidate.rsplit("::").next().unwrap_or(candidate);
    strsim::normalized_damerau_levenshtein(wanted, candidate).max(strsim::normalized_damerau_levenshtein(wanted, last))
}

fn similarity(wanted: &str, candidate: &str) -> f64 {
    let spelling = spelling(wanted, candidate);
    // A text of one or two letters occurs in almost all names.
    let contained = wanted.len() > 2 && candidate.contains(wanted);
    if contained { spelling.max(CONTAINED) } else { spelling }
}

/// `names` as the end of a message: `; did you mean a, b or c?`. Empty if there are no names.
pub(crate) fn suggestion(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [only] => format!("; did you mean {only}?"),
        [first @ .., last] => format!("; did you mean {} or {last}?", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_the_right_one_first() {
        let candidates = ["page-faults", "task-clock", "major-faults"];
        assert_eq!(nearest("PAGE-FUALTS", candidates)[0], "page-faults");
    }

    #[test]
    fn the_last_part_of_a_qualified_name_is_compared() {
        assert_eq!(nearest("relx", ["solver::relax"]), ["solver::relax"]);
    }

    #[test]
    fn a_name_that_contains_another_is_no_misspelling_of_it() {
        assert_eq!(nearest("nothing", ["uncore::UNC_IO_NOTHING"]).len(), 1);
        assert!(misspelt("nothing", ["uncore::UNC_IO_NOTHING"]).is_empty());
        assert_eq!(misspelt("UNC_IO_NOTING", ["uncore::UNC_IO_NOTHING"]).len(), 1);
    }

    #[test]
    fn nothing_alike_gives_no_suggestion() {
        assert!(nearest("zzz", ["page-faults"]).is_empty());
        assert_eq!(suggestion(&[]), "");
    }

    #[test]
    fn a_suggestion_reads_as_a_question() {
        let names = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(suggestion(&names), "; did you mean a, b or c?");
    }
}
