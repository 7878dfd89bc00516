//! Rectangles and lines of text, put beside and below each other.
//!
//! Lengths are in units: a dot of the SVG. Texts are of letters of one width, so that their size is known without a
//! font.

/// The size of a letter.
pub(super) const LETTER: (i32, i32) = (7, 13);

/// The room inside of a box around its contents, and between neighbours.
const ROOM: i32 = 4;

/// Longer rows than this many are cut, whatever the number of rows.
const MOST_COLUMNS: usize = 12;

/// What a rectangle stands for, which decides its colour.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fill {
    Paper,
    Package,
    Node,
    Cache,
    Core,
    Pu,
    OneThread,
    Threads,
    Forbidden,
    Device,
    /// The memory of a node, with the share of the program's memory that is there, from 0 to 1.
    Memory {
        share: f64,
    },
    /// That share.
    Used,
}

impl Fill {
    /// Red, green and blue.
    pub(super) fn colour(self) -> [u8; 3] {
        match self {
            Self::Paper | Self::Core => [255, 255, 255],
            Self::Package => [240, 236, 222],
            Self::Node => [228, 224, 240],
            Self::Cache => [226, 230, 234],
            Self::Pu => [246, 246, 246],
            Self::OneThread => [158, 202, 225],
            Self::Threads => [253, 174, 97],
            Self::Forbidden => [190, 190, 190],
            Self::Device => [217, 240, 211],
            Self::Memory { .. } => [250, 228, 222],
            Self::Used => [236, 172, 156],
        }
    }

    /// Whether it has a border.
    pub(super) fn has_border(self) -> bool {
        !matches!(self, Self::Paper | Self::Used)
    }
}

/// A shape at its place in the part that has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Shape {
    Rectangle {
        at: (i32, i32),
        size: (i32, i32),
        fill: Fill,
    },
    /// A line of text, by its upper left corner.
    Text { at: (i32, i32), text: String, strong: bool },
}

/// A part of the picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Part {
    size: (i32, i32),
    shapes: Vec<Shape>,
    /// Whether it takes the width of the box that it is in.
    stretches: bool,
}

impl Part {
    pub(super) fn size(&self) -> (i32, i32) {
        self.size
    }

    pub(super) fn shapes(&self) -> &[Shape] {
        &self.shapes
    }

    /// The rectangles with a border: left, top, width, height.
    #[cfg(test)]
    pub(super) fn boxes(&self) -> Vec<(i32, i32, i32, i32)> {
        let boxes = self.shapes.iter().filter_map(|shape| match shape {
            Shape::Rectangle { at, size, fill } if fill.has_border() => Some((at.0, at.1, size.0, size.1)),
            _ => None,
        });
        boxes.collect()
    }

    /// Puts another part into this one, with its upper left corner there.
    fn put(&mut self, part: Self, (x, y): (i32, i32)) {
        self.size.0 = self.size.0.max(x + part.size.0);
        self.size.1 = self.size.1.max(y + part.size.1);
        self.shapes.extend(part.shapes.into_iter().map(|mut shape| {
            let (Shape::Rectangle { at, .. } | Shape::Text { at, .. }) = &mut shape;
            *at = (at.0 + x, at.1 + y);
            shape
        }));
    }
}

/// A line of text. Control characters are left out.
pub(super) fn line(text: &str, strong: bool) -> Part {
    let text: String = text.chars().filter(|letter| !letter.is_control()).collect();
    let letters = i32::try_from(text.chars().count()).unwrap_or(i32::MAX / LETTER.0);
    Part {
        size: (letters * LETTER.0, LETTER.1),
        shapes: vec![Shape::Text {
            at: (0, 0),
            text,
            strong,
        }],
        stretches: false,
    }
}

/// Parts from left to right.
pub(super) fn beside(parts: Vec<Part>) -> Part {
    let mut row = Part::default();
    let mut x = 0;
    for part in parts {
        let width = part.size.0;
        row.put(part, (x, 0));
        x += width + ROOM;
    }
    row
}

/// Parts below each other.
fn below(parts: Vec<Part>) -> Part {
    let mut column = Part::default();
    let mut y = 0;
    for part in parts {
        let height = part.size.1;
        column.put(part, (0, y));
        y += height + ROOM;
    }
    column
}

/// The number of columns for this number of parts: about as many as rows. If possible, all rows are full.
fn columns(parts: usize) -> usize {
    let square = (1..=MOST_COLUMNS).find(|columns| columns * columns >= parts);
    let square = square.unwrap_or(MOST_COLUMNS);
    let full = (square..=(2 * square).min(MOST_COLUMNS)).find(|&columns| parts.is_multiple_of(columns));
    full.unwrap_or(square)
}

/// Parts in rows, about as many as there are columns.
pub(super) fn in_rows(parts: Vec<Part>) -> Part {
    let columns = columns(parts.len());
    let mut parts = parts.into_iter();
    let mut rows = vec![];
    loop {
        let row: Vec<Part> = parts.by_ref().take(columns).collect();
        if row.is_empty() {
            return below(rows);
        }
        rows.push(beside(row));
    }
}

/// Parts below each other in a box.
pub(super) fn boxed(fill: Fill, parts: Vec<Part>) -> Part {
    let width = parts.iter().map(|part| part.size.0).max().unwrap_or(0);
    let parts = parts
        .into_iter()
        .map(|part| if part.stretches { stretched(part, width) } else { part });
    let inside = below(parts.collect());
    let size = (inside.size.0 + 2 * ROOM, inside.size.1 + 2 * ROOM);
    let mut part = Part {
        size,
        shapes: vec![Shape::Rectangle { at: (0, 0), size, fill }],
        stretches: matches!(fill, Fill::Memory { .. } | Fill::Device),
    };
    part.put(inside, (ROOM, ROOM));
    part
}

/// A box that is as wide as the widest of its neighbours, and shows its share in that width.
fn stretched(mut part: Part, width: i32) -> Part {
    part.size.0 = width;
    if let Some(Shape::Rectangle { size, fill, .. }) = part.shapes.first_mut() {
        size.0 = width;
        if let Fill::Memory { share } = *fill
            && share > 0.0
        {
            let used = Shape::Rectangle {
                at: (1, 1),
                size: (part_of(width - 2, share), size.1 - 2),
                fill: Fill::Used,
            };
            part.shapes.insert(1, used);
        }
    }
    part
}

/// A share of a length, in whole units.
#[expect(clippy::cast_possible_truncation, reason = "it is at most the length")]
fn part_of(length: i32, share: f64) -> i32 {
    (f64::from(length) * share.clamp(0.0, 1.0)).round() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_full_where_that_can_be() {
        let of = [1, 2, 3, 4, 6, 7, 8, 10, 12, 16, 24, 64, 128, 300];
        assert_eq!(of.map(columns), [1, 2, 3, 2, 3, 3, 4, 5, 4, 4, 6, 8, 12, 12]);
    }

    #[test]
    fn the_share_of_memory_is_as_wide_as_it_says() {
        let memory = boxed(Fill::Memory { share: 0.25 }, vec![line("memory", false)]);
        let part = boxed(Fill::Node, vec![line(&"x".repeat(100), false), memory]);
        let used = part.shapes().iter().find_map(|shape| match shape {
            Shape::Rectangle {
                size, fill: Fill::Used, ..
            } => Some(size.0),
            _ => None,
        });
        assert_eq!(used, Some(175));
    }
}
