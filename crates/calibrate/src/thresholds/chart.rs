//! Curves as SVG. The same figures give the same bytes.

use std::fmt::Write as _;

/// One curve.
pub struct Line {
    /// The name of the line in the legend.
    pub name: String,
    /// The points, in ascending order of the first value.
    pub points: Vec<(f64, f64)>,
}

/// Curves over the same axes.
pub struct Chart {
    /// The title above the chart.
    pub title: String,
    /// The label of the horizontal axis.
    pub x: String,
    /// The label of the vertical axis.
    pub y: String,
    /// Whether the horizontal axis is logarithmic.
    pub logarithmic: bool,
    /// The curves.
    pub lines: Vec<Line>,
    /// A marked value of the horizontal axis, with its label.
    pub vertical: Option<(f64, String)>,
    /// A marked value of the vertical axis, with its label.
    pub horizontal: Option<(f64, String)>,
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 32.0;
const BOTTOM: f64 = 48.0;
/// Colours that readers with red-green colour blindness can distinguish (Okabe and Ito, "Color Universal Design",
/// 2008).
const COLOURS: [&str; 3] = ["#0072b2", "#d55e00", "#009e73"];

/// Charts, one below the other.
pub fn svg(charts: &[Chart]) -> String {
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        HEIGHT * charts.len() as f64
    );
    for (number, chart) in charts.iter().enumerate() {
        let _ = writeln!(text, "<g transform=\"translate(0,{})\">", HEIGHT * number as f64);
        chart.draw(&mut text);
        text += "</g>\n";
    }
    text + "</svg>\n"
}

/// Maps a value to a position in the picture.
struct Axis {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
    logarithmic: bool,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.logarithmic { value.log10() } else { value };
        let share = (scale(value) - scale(self.from)) / (scale(self.to) - scale(self.from));
        self.begin + share * (self.end - self.begin)
    }

    /// Values with a label: powers of ten, or whole multiples of one, two or five times a power of ten.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let powers = (-12..=12).map(|power| 10f64.powi(power));
            return powers.filter(|power| (self.from..=self.to).contains(power)).collect();
        }
        let rough = (self.to - self.from) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power);
        let step = step.into_iter().find(|&step| step >= rough).unwrap_or(10.0 * power);
        let first = (self.from / step).ceil();
        let ticks = (0..20).map(|number| (first + f64::from(number)) * step);
        ticks.filter(|tick| *tick <= self.to).collect()
    }
}

impl Chart {
    fn axes(&self) -> (Axis, Axis) {
        let points = || self.lines.iter().flat_map(|line| &line.points);
        let (from, to) = apart(span(points().map(|point| point.0)), self.logarithmic);
        let marked = self.horizontal.iter().map(|mark| mark.0);
        let (low, high) = apart(span(points().map(|point| point.1).chain(marked)), false);
        let room = 0.08 * (high - low);
        (
            Axis {
                from,
                to,
                begin: LEFT,
                end: WIDTH - RIGHT,
                logarithmic: self.logarithmic,
            },
            Axis {
                from: low - room,
                to: high + room,
                begin: HEIGHT - BOTTOM,
                end: TOP,
                logarithmic: false,
            },
        )
    }

    fn draw(&self, text: &mut String) {
        let (x, y) = self.axes();
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"18\" text-anchor=\"middle\" font-size=\"13\">{}</text>\n\
             <rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"black\"/>",
            WIDTH / 2.0,
            escaped(&self.title),
            WIDTH - LEFT - RIGHT,
            HEIGHT - TOP - BOTTOM,
        );
        for tick in x.ticks() {
            let place = x.at(tick);
            let _ = writeln!(
                text,
                "<text x=\"{place:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                HEIGHT - BOTTOM + 16.0,
                number(tick)
            );
        }
        for tick in y.ticks() {
            let place = y.at(tick);
            let _ = writeln!(
                text,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                place + 4.0,
                number(tick)
            );
        }
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text transform=\"translate(14,{}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 10.0,
            escaped(&self.x),
            (TOP + HEIGHT - BOTTOM) / 2.0,
            escaped(&self.y),
        );
        self.draw_marks(&x, &y, text);
        self.draw_lines(&x, &y, text);
    }

    fn draw_marks(&self, x: &Axis, y: &Axis, text: &mut String) {
        let mut mark = |from: (f64, f64), to: (f64, f64), name: &str| {
            let _ = writeln!(
                text,
                "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"grey\" stroke-dasharray=\"4 3\"/>\n\
                 <text x=\"{:.1}\" y=\"{:.1}\" fill=\"grey\">{}</text>",
                from.0,
                from.1,
                to.0,
                to.1,
                from.0 + 4.0,
                to.1 + if from.0 < to.0 { -4.0 } else { 12.0 },
                escaped(name)
            );
        };
        if let Some((value, name)) = &self.vertical {
            mark((x.at(*value), y.begin), (x.at(*value), y.end), name);
        }
        if let Some((value, name)) = &self.horizontal {
            mark((x.begin, y.at(*value)), (x.end, y.at(*value)), name);
        }
    }

    fn draw_lines(&self, x: &Axis, y: &Axis, text: &mut String) {
        for (number, (line, colour)) in self.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let points: Vec<(f64, f64)> = line.points.iter().map(|&(a, b)| (x.at(a), y.at(b))).collect();
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                text,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
                path.join(" ")
            );
            for (x, y) in points {
                let _ = writeln!(
                    text,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>"
                );
            }
            if self.lines.len() > 1 {
                let _ = writeln!(
                    text,
                    "<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
                    WIDTH - RIGHT - 8.0,
                    HEIGHT - BOTTOM - 10.0 - 14.0 * number as f64,
                    escaped(&line.name)
                );
            }
        }
    }
}

/// The least and the greatest value.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

/// The ends of an axis, always different: a single value is in the middle, and without values the axis is from one to
/// ten.
fn apart((from, to): (f64, f64), logarithmic: bool) -> (f64, f64) {
    if from < to {
        (from, to)
    } else if from > to {
        (1.0, 10.0)
    } else if logarithmic {
        (from / 2.0, to * 2.0)
    } else {
        (from - 0.5, to + 0.5)
    }
}

/// The shortest form of a number.
fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-3 || value.abs() >= 1e5) {
        format!("{value:.0e}")
    } else {
        let text = format!("{value:.3}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> Chart {
        Chart {
            title: "a < b".to_owned(),
            x: "rate".to_owned(),
            y: "gain".to_owned(),
            logarithmic: true,
            lines: vec![Line {
                name: "gain".to_owned(),
                points: vec![(1e-5, 1.0), (1e-4, 1.1), (1e-3, 2.0)],
            }],
            vertical: Some((1e-4, "threshold".to_owned())),
            horizontal: None,
        }
    }

    #[test]
    fn points_are_at_their_values_on_the_axes() {
        let (x, y) = chart().axes();
        assert!((x.at(1e-4) - f64::midpoint(x.begin, x.end)).abs() < 1e-9);
        assert!(y.at(2.0) < y.at(1.0), "up is more");
        assert_eq!(x.ticks().len(), 3);
    }

    #[test]
    fn one_point_is_in_the_middle_and_no_points_leave_the_axes() {
        let mut chart = chart();
        chart.lines[0].points.truncate(1);
        let (x, y) = chart.axes();
        assert!((x.at(1e-5) - f64::midpoint(x.begin, x.end)).abs() < 1e-9);
        assert!((y.at(1.0) - f64::midpoint(y.begin, y.end)).abs() < 1e-9);
        chart.lines[0].points.clear();
        let text = svg(&[chart]);
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }

    #[test]
    fn every_point_is_drawn_and_text_is_escaped() {
        let text = svg(&[chart()]);
        assert_eq!(text.matches("<circle").count(), 3);
        assert!(text.contains("a &lt; b") && text.contains("threshold"), "{text}");
        assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
    }
}
