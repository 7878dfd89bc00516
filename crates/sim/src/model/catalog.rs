//! The models that come with pinfold, compiled into the binary: the one place that lists them.

use super::Model;

const MODELS: [(&str, &str); 13] = [
    ("clovertown", include_str!("../../../../machines/clovertown.toml")),
    ("caneland", include_str!("../../../../machines/caneland.toml")),
    ("barcelona", include_str!("../../../../machines/barcelona.toml")),
    (
        "opteron-6164x4",
        include_str!("../../../../machines/opteron-6164x4.toml"),
    ),
    ("e5-2660v2x2", include_str!("../../../../machines/e5-2660v2x2.toml")),
    ("e5-2680v3x2", include_str!("../../../../machines/e5-2680v3x2.toml")),
    ("e5-2650lv4x2", include_str!("../../../../machines/e5-2650lv4x2.toml")),
    ("gold-6140x2", include_str!("../../../../machines/gold-6140x2.toml")),
    ("e5-4650x4", include_str!("../../../../machines/e5-4650x4.toml")),
    (
        "platinum-8168x2",
        include_str!("../../../../machines/platinum-8168x2.toml"),
    ),
    ("epyc-9654x2", include_str!("../../../../machines/epyc-9654x2.toml")),
    ("epyc-7763x2", include_str!("../../../../machines/epyc-7763x2.toml")),
    ("xeon-8480x2", include_str!("../../../../machines/xeon-8480x2.toml")),
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
