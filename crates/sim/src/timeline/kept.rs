//! Simulated configurations that are kept, so that other runs of the same programs do not simulate them again.
//!
//! The name under which a configuration is kept is a hash of everything that its rates depend on. The configuration
//! itself is kept with its rates, and is compared. What is not there, or not understood, is simulated.

use super::windows::{Rates, Setting};
use pinfold_core::content_hash;
use serde::{Deserialize, Serialize};

/// Where simulated configurations are kept: contents by their names, which are hexadecimal numbers.
pub trait WindowStore {
    /// The content with this name; `None` if there is none.
    fn load(&self, name: &str) -> Option<Vec<u8>>;

    /// Keeps a content. If that fails, nothing is lost but time.
    fn store(&self, name: &str, content: &[u8]);
}

/// The kept configurations of one run's programs on its machine.
pub(crate) struct KeptWindows {
    store: Box<dyn WindowStore>,
    /// The hash of everything but the configuration.
    run: u128,
}

/// What is kept of a configuration.
#[derive(Serialize, Deserialize)]
struct Content<Rates> {
    setting: String,
    rates: Rates,
}

impl KeptWindows {
    /// Those in a store. `run` is all that rates depend on besides the configuration: the simulator, the recordings,
    /// the model and the seed.
    pub(crate) fn new(store: Box<dyn WindowStore>, run: &[u8]) -> Self {
        Self {
            store,
            run: content_hash(run),
        }
    }

    /// The name of a setting, and the setting as text.
    fn name(&self, setting: &Setting) -> (String, String) {
        let text = format!("{setting:?}");
        let hash = content_hash(text.as_bytes());
        (format!("{:032x}{hash:032x}", self.run), text)
    }

    pub(super) fn load(&self, setting: &Setting) -> Option<Rates> {
        let (name, text) = self.name(setting);
        let content: Content<Rates> = serde_json::from_slice(&self.store.load(&name)?).ok()?;
        (content.setting == text).then_some(content.rates)
    }

    pub(super) fn store(&self, setting: &Setting, rates: &Rates) {
        let (name, setting) = self.name(setting);
        if let Ok(content) = serde_json::to_vec(&Content { setting, rates }) {
            self.store.store(&name, &content);
        }
    }
}
