//! The models that come with pinfold, compiled into the binary: the files of machines/, which `build.rs` lists in
//! `MODELS`.

use super::Model;

include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// The names of the models, as `--machine` takes them.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    MODELS.iter().map(|(name, _)| *name)
}

/// The model with this name; `None` if there is none.
pub fn builtin(name: &str) -> Option<Model> {
    let (name, text) = MODELS.iter().find(|(known, _)| *known == name)?;
    Some(Model::parse(&format!("machines/{name}.toml"), text).expect("the built-in models are tested"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_model_is_valid_and_has_the_name_of_its_file() {
        for (name, text) in MODELS {
            match Model::parse(&format!("machines/{name}.toml"), text) {
                Ok(model) => assert_eq!(model.name, name),
                Err(error) => panic!("{error}"),
            }
        }
    }
}
