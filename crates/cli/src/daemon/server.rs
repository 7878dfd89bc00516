//! What the daemon answers: `GET /state` is the state as JSON, `GET /metrics` the same for Prometheus.
//!
//! A request waits for the next interval of the daemon. The daemon makes a state only for a request.

use pinfold_linux::service::{Answer, OnRequest, Response};
use pinfold_runtime::daemon::exposition;
use pinfold_runtime::daemon::state::State;
use std::sync::Arc;
use std::time::Duration;

/// How late an interval may end: on a busy machine the daemon waits for processor time.
const LATE: Duration = Duration::from_secs(10);

/// Answers with the daemon's state.
pub(super) struct Pages {
    states: Arc<OnRequest<State>>,
    /// How long a request waits for a state.
    patience: Duration,
}

impl Pages {
    /// The pages of a daemon that can make a state in each `interval`.
    pub(super) fn new(states: Arc<OnRequest<State>>, interval: Duration) -> Self {
        Self {
            states,
            patience: interval * 2 + LATE,
        }
    }
}

impl Answer for Pages {
    fn get(&self, path: &str) -> Response {
        let page: fn(&State) -> Response = match path {
            "/metrics" => |state| Response::document(exposition::CONTENT_TYPE, exposition::text(state)),
            "/state" => |state| {
                let text = serde_json::to_string(state).unwrap_or_default();
                Response::document("application/json", text + "\n")
            },
            _ => return Response::plain("404 Not Found", "there are /metrics and /state\n"),
        };
        match self.states.request(self.patience) {
            Some(state) => page(&state),
            None => Response::plain("503 Service Unavailable", "the daemon has made no state in time\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_path_is_refused_without_a_state() {
        let pages = Pages {
            states: Arc::default(),
            patience: Duration::ZERO,
        };
        for (path, status) in [("/", "404"), ("/metrics", "503"), ("/state", "503")] {
            assert!(pages.get(path).status.starts_with(status), "{path}");
        }
    }
}
