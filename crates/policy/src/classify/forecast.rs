//! The input of a placement model, its answer, and the strategies that follow from the answer.

use super::features::{FEATURES, OF_MACHINE, observe};
use super::{MachinePeaks, Pages, PlacementModel, Prediction, Strategy, Unknown};
use crate::sam::Observer;
use pinfold_core::{Finding, ForecastCode, Observed, PageMapping, PuSet, Sample, StrategyForecast, TaskId, Topology};
use std::sync::Arc;

/// The values of [`FEATURES`].
pub(crate) type Figures = [Option<f64>; FEATURES.len()];

/// A figure by its name; `None` if it is not known.
pub(crate) fn figure(figures: &Figures, name: &str) -> Option<f64> {
    figures[FEATURES.iter().position(|feature| feature.name == name)?]
}

/// The figures of the working tasks from the first to the second sample, and of the machine.
pub(crate) fn figures(
    observer: Option<&Observer>,
    (first, last): (&Sample, &Sample),
    works: impl Fn(TaskId) -> bool,
    topology: &Topology,
    peaks: &MachinePeaks,
) -> Figures {
    let anywhere = Arc::new(PuSet::new());
    let mut rates = observer
        .map(|observer| observer.rates(first, last, |_| Arc::clone(&anywhere)))
        .unwrap_or_default();
    rates.retain(|task| works(task.id));
    observe(&rates, last.at.saturating_sub(first.at), topology, peaks)
}

/// A model's answer.
pub(crate) struct Answer {
    /// `None` if it does not forecast.
    pub(crate) said: Option<Prediction>,
    pub(crate) code: ForecastCode,
    pub(crate) why: String,
    /// The strategies to try.
    pub(crate) wanted: Vec<Strategy>,
}

/// Asks a model, or none, about these figures.
pub(crate) fn ask(model: Option<&PlacementModel>, figures: &Figures) -> Answer {
    let nothing = |code, why| Answer {
        said: None,
        code,
        why,
        wanted: vec![],
    };
    let Some(model) = model else {
        return nothing(ForecastCode::NoModel, "there is no model".to_owned());
    };
    match model.predict(|name| figure(figures, name), |name| OF_MACHINE.contains(&name)) {
        Err(unknown) => {
            let code = match &unknown {
                Unknown::Missing(_) => ForecastCode::NotKnown,
                Unknown::OtherMachine { .. } => ForecastCode::OtherMachine,
            };
            nothing(code, unknown.to_string())
        }
        Ok(said) => {
            let (code, why, wanted) = verdict(&said);
            Answer {
                said: Some(said),
                code,
                why,
                wanted,
            }
        }
    }
}

impl Answer {
    /// The finding of this answer to these figures.
    pub(crate) fn finding(&self, figures: &Figures) -> Finding {
        let observed = FEATURES.iter().zip(figures).map(|(feature, &value)| Observed {
            name: feature.name.to_owned(),
            unit: feature.meaning.to_owned(),
            value,
        });
        Finding::Forecast {
            observed: observed.collect(),
            strategies: self.said.as_ref().map(forecasts).unwrap_or_default(),
            code: self.code,
            why: self.why.clone(),
        }
    }
}

/// What follows from a prediction: a code, a text, and the strategies to try.
fn verdict(said: &Prediction) -> (ForecastCode, String, Vec<Strategy>) {
    let of = |place: usize| said.strategies[place];
    if !said.is_sure {
        let places = said.likeliest().into_iter().filter(|&place| place != 0);
        let why = "the forecast is not sure which of them is the fastest".to_owned();
        return (ForecastCode::Unsure, why, places.map(of).collect());
    }
    let choice = said.choice();
    if choice != 0 {
        let why = format!(
            "{} is forecast to take {:.2} times as long as the default",
            of(choice),
            said.logs[choice].exp()
        );
        return (ForecastCode::Strategy, why, vec![of(choice)]);
    }
    if said.is_sensitive {
        let why = "the default is forecast to be the fastest strategy".to_owned();
        (ForecastCode::DefaultIsBest, why, vec![])
    } else {
        let why = "the program is forecast to take about as long in any strategy, so it is left alone".to_owned();
        (ForecastCode::Insensitive, why, vec![])
    }
}

fn forecasts(said: &Prediction) -> Vec<StrategyForecast> {
    let of = |place: usize| {
        let (strategy, log, width) = (said.strategies[place], said.logs[place], said.widths[place]);
        StrategyForecast {
            threads: strategy.threads,
            pages: match strategy.pages {
                Pages::FirstTouch => PageMapping::FirstTouch,
                Pages::Interleave => PageMapping::Interleave,
            },
            time_ratio: log.exp(),
            low: width.map(|width| (log - width).exp()),
            high: width.map(|width| (log + width).exp()),
        }
    };
    (0..said.logs.len()).map(of).collect()
}
