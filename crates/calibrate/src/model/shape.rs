//! The regular shape of a model, from the machine's topology.

use pinfold_core::{Cache, CacheType, ObjectKind, PuId, PuSet, Topology};

/// Why a machine has no regular shape.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// Too few caches are known.
    #[error(
        "this machine reports {0} levels of data caches, and a model has 2 to 4: write a model by hand, based on that of a similar \
         machine (`pinfold machines`)"
    )]
    Caches(usize),
    /// Parts of one kind differ.
    #[error(
        "this machine's {which} have between {least} and {most} {of_what}: only a machine with equal {which} can be \
         simulated"
    )]
    Uneven {
        /// The parts.
        which: &'static str,
        /// The property that differs.
        of_what: &'static str,
        /// The smallest number.
        least: usize,
        /// The largest number.
        most: usize,
    },
    /// The machine reports none of a part.
    #[error("this machine reports no {0}")]
    Without(&'static str),
}

/// The numbers of all parts. All cores, domains and nodes are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) packages: usize,
    pub(super) nodes: usize,
    pub(super) cores_per_package: usize,
    pub(super) threads_per_core: usize,
    pub(super) cores_per_domain: usize,
    /// The PUs' numbers: the first of each core, core by core, then the second of each, and so on.
    pub(super) numbering: Vec<PuId>,
    /// The data caches of a core, nearest first.
    pub(super) caches: Vec<Cache>,
}

impl Shape {
    /// The machine's shape.
    ///
    /// # Errors
    ///
    /// A machine without a regular shape: cores with different numbers of PUs, packages of different size, no caches.
    pub fn of(topology: &Topology) -> Result<Self, ShapeError> {
        let sets =
            |kind: ObjectKind| -> Vec<&PuSet> { topology.objects_of(kind).map(|(_, object)| &object.pus).collect() };
        let all = &topology.object(topology.root()).pus;
        let mut cores = sets(ObjectKind::Core);
        let alone: Vec<PuSet> = all.iter().map(|pu| [pu].into_iter().collect()).collect();
        if cores.is_empty() {
            cores = alone.iter().collect();
        }
        let mut packages = sets(ObjectKind::Package);
        if packages.is_empty() {
            packages = vec![all];
        }
        let nodes = topology.nodes_with_pus().count().max(1);
        let domains: Vec<&PuSet> = topology
            .llc_domains()
            .iter()
            .map(|&id| &topology.object(id).pus)
            .collect();
        let threads_per_core = uniform("cores", "PUs", cores.iter().map(|core| core.len()))?;
        let inside = |outer: &PuSet| cores.iter().filter(|core| core.is_subset(outer)).count();
        let cores_per_package = uniform("packages", "cores", packages.iter().map(|&package| inside(package)))?;
        let cores_per_domain = uniform(
            "last-level caches",
            "cores",
            domains.iter().map(|&domain| inside(domain)),
        )?;
        let numbering = (0..threads_per_core)
            .flat_map(|sibling| cores.iter().filter_map(move |core| core.iter().nth(sibling)))
            .collect();
        let path = all.first().map(|pu| topology.path_to(pu)).unwrap_or_default();
        let caches: Vec<Cache> = path
            .iter()
            .rev()
            .filter_map(|&id| topology.object(id).cache)
            .filter(|cache| cache.cache_type != CacheType::Instruction)
            .collect();
        if caches.len() < 2 {
            return Err(ShapeError::Caches(caches.len()));
        }
        Ok(Self {
            packages: packages.len(),
            nodes,
            cores_per_package,
            threads_per_core,
            cores_per_domain,
            numbering,
            caches,
        })
    }

    /// The shape of a machine that shows siblings as separate cores. The siblings have neighbouring numbers, as
    /// hypervisors number them. `None` if the cores cannot be paired.
    pub(super) fn with_hidden_siblings(&self) -> Option<Self> {
        let paired = self.threads_per_core == 1
            && self.cores_per_package.is_multiple_of(2)
            && (self.cores_per_domain.is_multiple_of(2) || self.cores_per_domain == 1);
        if !paired {
            return None;
        }
        let sibling = |which: usize| self.numbering.iter().skip(which).step_by(2).copied();
        Some(Self {
            cores_per_package: self.cores_per_package / 2,
            threads_per_core: 2,
            cores_per_domain: (self.cores_per_domain / 2).max(1),
            numbering: sibling(0).chain(sibling(1)).collect(),
            ..self.clone()
        })
    }

    pub(super) fn cores(&self) -> usize {
        self.packages * self.cores_per_package
    }

    /// Whether a package has several last-level caches.
    pub(super) fn split(&self) -> bool {
        self.cores_per_domain < self.cores_per_package
    }
}

/// The value of `numbers`, which are all equal.
fn uniform(
    which: &'static str,
    of_what: &'static str,
    numbers: impl Iterator<Item = usize>,
) -> Result<usize, ShapeError> {
    let numbers: Vec<usize> = numbers.collect();
    let (least, most) = (numbers.iter().min().copied(), numbers.iter().max().copied());
    match (least, most) {
        (Some(least), Some(most)) if least == most && least > 0 => Ok(least),
        (Some(least), Some(most)) => Err(ShapeError::Uneven {
            which,
            of_what,
            least,
            most,
        }),
        _ => Err(ShapeError::Without(which)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_linux::topology::{Source, read};

    fn shape(synthetic: &str) -> Result<Shape, ShapeError> {
        Shape::of(&read(&Source::Synthetic(synthetic.to_owned())).unwrap())
    }

    #[test]
    fn the_numbers_are_those_of_the_machine() {
        let shape = shape("package:2 l3:2 l2:2 l1d:1 core:1 pu:2").unwrap();
        assert_eq!(
            (shape.packages, shape.cores_per_package, shape.threads_per_core),
            (2, 4, 2)
        );
        assert_eq!((shape.cores_per_domain, shape.caches.len(), shape.cores()), (2, 3, 8));
        assert!(shape.split());
        let firsts: Vec<u32> = shape.numbering[..3].iter().map(|pu| pu.0).collect();
        assert_eq!(firsts, [0, 2, 4]);
    }

    #[test]
    fn hidden_siblings_are_neighbours() {
        let shape = shape("package:1 l3:1 l2:4 l1d:1 core:1 pu:1").unwrap();
        let paired = shape.with_hidden_siblings().unwrap();
        assert_eq!(
            (
                paired.cores_per_package,
                paired.threads_per_core,
                paired.cores_per_domain
            ),
            (2, 2, 2)
        );
        let numbers: Vec<u32> = paired.numbering.iter().map(|pu| pu.0).collect();
        assert_eq!(numbers, [0, 2, 1, 3]);
        assert_eq!(paired.with_hidden_siblings(), None);
    }

    #[test]
    fn the_error_for_a_machine_without_caches_says_what_to_do() {
        let error = shape("package:1 core:2 pu:1").unwrap_err().to_string();
        assert!(error.contains("write a model by hand"), "{error}");
    }
}
