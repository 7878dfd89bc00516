//! The models that come with pinfold, compiled into the binary: the one place that lists them.

use super::Model;

const MODELS: [(&str, &str); 3] = [
    (
        "opteron-6164x4",
        include_str!("../../../../machines/opteron-6164x4.toml"),
    ),
    ("e5-2660v2x2", include_str!("../../../../machines/e5-2660v2x2.toml")),
    ("e5-4650x4", include_str!("../../../../machines/e5-4650x4.toml")),
];

/// The names of the models, as `--machine` takes them.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|(name, _)| *name)
}

/// The model of this name; `None` where there is none.
pub fn builtin(name: &str) -> Option<Model> {
    let (name, text) = MODELS.iter().find(|(known, _)| *known == name)?;
    Some(Model::parse(&format!("machines/{name}.toml"), text).expect("the built-in models are tested"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_model_is_sound_and_has_the_name_of_its_file() {
        for (name, text) in MODELS {
            match Model::parse(&format!("machines/{name}.toml"), text) {
                Ok(model) => assert_eq!(model.name, name),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
