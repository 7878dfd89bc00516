//! A machine as a picture, SVG or PNG, as hwloc's lstopo draws it; with the threads and the memory of a run on it.
//!
//! 1. `layout` puts packages, NUMA nodes and last-level-cache domains into each other.
//! 2. Boxes get their sizes from the inside out. Boxes of one kind are in rows, about as many as columns.
//! 3. The result is a list of rectangles and lines of text (`shapes`). Two short writers (`svg`, `png`) draw it, so
//!    that both pictures are alike. No font of the system is needed.

mod png;
mod shapes;
mod svg;

use crate::course::Course;
use crate::layout::{Block, Layout};
use crate::numbers;
use pinfold_core::{
    CacheType, Device, DeviceName, NodeId, ObjectId, ObjectKind, PuId, PuSet, Topology, size_text, summary,
};
use pinfold_runtime::RunDocument;
use shapes::{Fill, PicturePart, beside, boxed, in_rows, line};

/// A picture.
pub struct Picture {
    title: String,
    whole: PicturePart,
}

/// Why a run cannot be drawn.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the record does not have the machine and the places of threads: an older pinfold wrote it, or the run was too short to \
     be read; run the program again with `pinfold run --json FILE`"
)]
pub struct NothingToDraw;

impl Picture {
    /// A machine with its devices.
    pub fn from_machine(topology: &Topology, devices: &[Device]) -> Self {
        let drawing = PictureDrawing {
            topology,
            layout: Layout::new(topology),
            devices,
            run: None,
        };
        drawing.picture(&[], &[])
    }

    /// The machine of a run, with its threads and its memory as they were before it ended.
    ///
    /// # Errors
    ///
    /// A record without places of threads.
    pub fn from_run(document: &RunDocument) -> Result<Self, NothingToDraw> {
        let record = &document.record;
        let timeline = record.timeline.as_ref().filter(|line| !line.at.is_empty());
        let timeline = timeline.ok_or(NothingToDraw)?;
        let course = Course::new(timeline, record.program.ran);
        let point = course.last().ok_or(NothingToDraw)?;
        let drawing = PictureDrawing {
            topology: &timeline.topology,
            layout: Layout::new(&timeline.topology),
            devices: &[],
            run: Some((&course, point)),
        };
        let word = record.kind().word();
        let simulated = word.map_or_else(String::new, |word| format!(", {word}"));
        let head = [
            shortened(&document.command.join(" ")),
            format!(
                "threads and memory after {}{simulated}",
                numbers::seconds(course.at[point])
            ),
        ];
        let key = "In each CPU: its number, and the threads that ran there, in the order of their creation.";
        Ok(drawing.picture(&head, &[key.to_owned()]))
    }

    /// As SVG.
    pub fn svg(&self) -> String {
        svg::written(&self.title, &self.whole)
    }

    /// As PNG, with two dots for each unit of length.
    pub fn png(&self) -> Vec<u8> {
        png::written(&self.whole)
    }
}

/// A command line that is not wider than most machines.
fn shortened(text: &str) -> String {
    const MOST: usize = 90;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    let head: String = text.chars().take(MOST - 3).collect();
    head + "..."
}

/// What is drawn.
struct PictureDrawing<'a> {
    topology: &'a Topology,
    layout: Layout,
    devices: &'a [Device],
    /// The course of a run, and the point of it.
    run: Option<(&'a Course, usize)>,
}

impl PictureDrawing<'_> {
    /// The picture, with these lines above and below the machine.
    fn picture(&self, head: &[String], foot: &[String]) -> Picture {
        let title = summary(self.topology);
        let mut parts = vec![line(&title, true)];
        parts.extend(head.iter().map(|text| line(text, false)));
        let mut blocks: Vec<PicturePart> = self.layout.blocks.iter().map(|block| self.block(block)).collect();
        let apart = self.layout.apart.iter();
        blocks.extend(apart.map(|(node, label)| boxed(Fill::Node, vec![line(label, true), self.memory(*node)])));
        parts.push(in_rows(blocks));
        let elsewhere = self.devices.iter().filter(|device| self.home(device).is_none());
        parts.extend(elsewhere.map(|device| boxed(Fill::Device, vec![line(&self.device(device), false)])));
        parts.extend(foot.iter().map(|text| line(text, false)));
        Picture {
            title,
            whole: boxed(Fill::Paper, parts),
        }
    }

    fn block(&self, block: &Block) -> PicturePart {
        let fill = match &block.labels[..] {
            [label, ..] if label.starts_with("Package") => Fill::Package,
            [label, ..] if label.starts_with("NUMA") => Fill::Node,
            _ => Fill::Cache,
        };
        let mut parts = vec![line(&block.label(), true)];
        parts.extend(block.nodes.iter().map(|&node| self.memory(node)));
        if !block.cores.is_empty() {
            parts.extend(self.caches(block).map(|text| line(&text, false)));
            parts.push(in_rows(block.cores.iter().map(|core| self.core(core)).collect()));
        }
        if !block.inside.is_empty() {
            parts.push(in_rows(block.inside.iter().map(|inner| self.block(inner)).collect()));
        }
        let here = self
            .devices
            .iter()
            .filter(|device| self.home(device) == Some(&block.pus));
        parts.extend(here.map(|device| boxed(Fill::Device, vec![line(&self.device(device), false)])));
        boxed(fill, parts)
    }

    fn core(&self, core: &[u32]) -> PicturePart {
        boxed(Fill::Core, vec![beside(core.iter().map(|&pu| self.pu(pu)).collect())])
    }

    fn pu(&self, pu: u32) -> PicturePart {
        let on = self.run.map(|(course, point)| course.on_pus(point));
        let here = on.as_ref().map(|on| on.get(&pu).map_or(&[][..], Vec::as_slice));
        let fill = match here {
            _ if !self.layout.allowed.contains(PuId(pu)) => Fill::Forbidden,
            None | Some([]) => Fill::Pu,
            Some([_]) => Fill::OneThread,
            Some(_) => Fill::Threads,
        };
        let mut lines = vec![line(&format!("{pu:>3}"), false)];
        if let Some(here) = here {
            let threads = match here {
                [] => String::new(),
                [one] => (*one).to_string(),
                several => format!("{} t", several.len()),
            };
            lines.push(line(&format!("{threads:>3}"), true));
        }
        boxed(fill, lines)
    }

    /// The memory of a node: its size, or the program's part of it.
    fn memory(&self, node: NodeId) -> PicturePart {
        if let Some((course, point)) = self.run {
            let series = course.memory.iter().find(|series| series.node == node.0);
            let bytes = series.and_then(|series| series.bytes.get(point).copied().flatten());
            let sum = course.sums.get(point).copied().unwrap_or(0);
            return match bytes {
                Some(bytes) if sum > 0 => {
                    let share = bytes as f64 / sum as f64;
                    let text = format!("memory {}, {:.0} %", numbers::bytes(bytes), 100.0 * share);
                    boxed(Fill::Memory { share }, vec![line(&text, false)])
                }
                _ => boxed(Fill::Memory { share: 0.0 }, vec![line("memory not known", false)]),
            };
        }
        let known = self.topology.nodes().iter().find(|one| one.id == node);
        let size = known.and_then(|node| node.memory).map(size_text);
        let text = size.map_or_else(|| "memory".to_owned(), |size| format!("memory {size}"));
        boxed(Fill::Memory { share: 0.0 }, vec![line(&text, false)])
    }

    /// The caches of the first core of a box that are not the box itself: `each core: L2 1 MiB, L1d 32 KiB`.
    fn caches(&self, block: &Block) -> Option<String> {
        let first = PuId(*block.cores.first()?.first()?);
        let last = self.topology.llc_domains();
        let path = self.topology.path_to(first);
        let mut caches: Vec<(usize, String)> = vec![];
        for id in path {
            let object = self.topology.object(id);
            let Some(cache) = object.cache.filter(|_| !last.contains(&id)) else {
                continue;
            };
            let kind = match cache.cache_type {
                CacheType::Unified => "",
                CacheType::Data => "d",
                CacheType::Instruction => continue,
            };
            let size = cache
                .size
                .map_or_else(String::new, |size| format!(" {}", size_text(size)));
            caches.push((self.cores_of(id), format!("L{}{kind}{size}", cache.level)));
        }
        let (shared, own): (Vec<_>, Vec<_>) = caches.into_iter().partition(|(cores, _)| *cores > 1);
        let mut texts: Vec<String> = vec![];
        texts.extend(shared.iter().map(|(cores, text)| format!("{cores} cores: {text}")));
        if !own.is_empty() {
            let own: Vec<&str> = own.iter().map(|(_, text)| text.as_str()).collect();
            texts.push(format!("each core: {}", own.join(", ")));
        }
        (!texts.is_empty()).then(|| texts.join("; "))
    }

    fn cores_of(&self, id: ObjectId) -> usize {
        let pus = &self.topology.object(id).pus;
        let cores = self.topology.objects_of(ObjectKind::Core);
        cores.filter(|(_, core)| core.pus.is_subset(pus)).count()
    }

    /// The PUs of the box to which a device belongs: the smallest one that has all PUs near it. `None` for no box, as
    /// of a device near all of several packages.
    fn home(&self, device: &Device) -> Option<&PuSet> {
        let pus = device.pus.as_ref().filter(|pus| !pus.is_empty())?;
        let mut home = None;
        let mut boxes: Vec<&Block> = self.layout.blocks.iter().collect();
        while let Some(next) = boxes.into_iter().find(|block| pus.is_subset(&block.pus)) {
            home = Some(&next.pus);
            boxes = next.inside.iter().collect();
        }
        home
    }

    fn device(&self, device: &Device) -> String {
        let names: Vec<String> = DeviceName::of(device, self.devices)
            .iter()
            .map(ToString::to_string)
            .collect();
        format!("{} {}", device.kind, names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_core::{Cache, DeviceKind, NumaNode, TopologyBuilder};

    /// Packages of two cores with an L3 and a node.
    fn machine(packages: u32) -> Topology {
        let mut builder = TopologyBuilder::new("test");
        for number in 0..packages {
            let package = builder.object(builder.root(), ObjectKind::Package, Some(number));
            let cache = |level, cache_type, size| Cache {
                level,
                cache_type,
                size: Some(size),
                line_size: Some(64),
                ways: Some(16),
            };
            let l3 = builder.cache(package, cache(3, CacheType::Unified, 16 << 20));
            let pus = 2 * number..2 * number + 2;
            for pu in pus.clone() {
                let l1 = builder.cache(l3, cache(1, CacheType::Data, 32 << 10));
                let core = builder.object(l1, ObjectKind::Core, Some(pu));
                builder.pu(core, PuId(pu));
            }
            builder.node(NumaNode {
                id: NodeId(number),
                attached_to: package,
                pus: pus.map(PuId).collect(),
                memory: Some(8 << 30),
                subtype: None,
            });
        }
        builder.build_all().unwrap()
    }

    fn device(pus: &str) -> Device {
        Device {
            kind: DeviceKind::Gpu,
            pci: Some("0000:65:00.0".parse().unwrap()),
            vendor: Some(0x10de),
            names: vec!["card0".to_owned()],
            pus: Some(pus.parse().unwrap()),
        }
    }

    #[test]
    fn a_picture_names_boxes_caches_memory_and_devices() {
        let svg = Picture::from_machine(&machine(2), &[device("2-3")]).svg();
        for text in [
            "Package 0, NUMA node 0, L3 16 MiB",
            "memory 8 GiB",
            "each core: L1d 32 KiB",
            "GPU cuda:0",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn a_device_is_in_the_smallest_box_that_has_all_its_pus() {
        let machine = machine(2);
        let drawing = |devices: &'static [Device]| PictureDrawing {
            topology: &machine,
            layout: Layout::new(&machine),
            devices,
            run: None,
        };
        let here = drawing(&[]);
        let home = |pus: &str| here.home(&device(pus)).map(ToString::to_string);
        assert_eq!(home("2-3").as_deref(), Some("2-3"));
        assert_eq!(home("2").as_deref(), Some("2-3"));
        assert_eq!(home("0-3"), None);
    }

    #[test]
    fn inner_boxes_stay_within_and_neighbours_do_not_overlap() {
        for packages in 1..10 {
            let picture = Picture::from_machine(&machine(packages), &[device("0-1")]);
            let (width, height) = picture.whole.size();
            let boxes = picture.whole.boxes();
            for &(x, y, w, h) in &boxes {
                assert!(x >= 0 && y >= 0 && x + w <= width && y + h <= height);
            }
            let cross = |one: &(i32, i32, i32, i32), other: &(i32, i32, i32, i32)| {
                let apart = one.0 + one.2 <= other.0
                    || other.0 + other.2 <= one.0
                    || one.1 + one.3 <= other.1
                    || other.1 + other.3 <= one.1;
                let within = |inner: &(i32, i32, i32, i32), outer: &(i32, i32, i32, i32)| {
                    inner.0 >= outer.0
                        && inner.1 >= outer.1
                        && inner.0 + inner.2 <= outer.0 + outer.2
                        && inner.1 + inner.3 <= outer.1 + outer.3
                };
                !apart && !within(one, other) && !within(other, one)
            };
            for (place, one) in boxes.iter().enumerate() {
                assert!(
                    !boxes[..place].iter().any(|other| cross(one, other)),
                    "{packages}: {one:?}"
                );
            }
        }
    }

    #[test]
    fn a_png_is_twice_as_large_as_the_svg_and_has_its_colours() {
        let picture = Picture::from_machine(&machine(2), &[]);
        let (width, height) = picture.whole.size();
        let bytes = picture.png();
        let mut reader = ::png::Decoder::new(std::io::Cursor::new(&bytes)).read_info().unwrap();
        let mut image = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut image).unwrap();
        assert_eq!(
            (info.width, info.height),
            (u32::try_from(2 * width).unwrap(), u32::try_from(2 * height).unwrap())
        );
        let package = Fill::Package.colour();
        assert!(image.chunks(3).any(|dot| dot == package));
        assert!(image.chunks(3).any(|dot| dot == [0, 0, 0]));
    }
}
