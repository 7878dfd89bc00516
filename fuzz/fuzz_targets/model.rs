//! Machine models. An accepted model has a topology and routes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pinfold_sim::model::Model;

fuzz_target!(|text: &str| {
    if let Ok(model) = Model::parse("model.toml", text) {
        let topology = model.topology();
        assert_eq!(topology.allowed_pus().len(), model.pus());
        let _ = model.routes();
    }
});
