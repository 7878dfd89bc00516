//! What a page shows beside the record.

/// What a page shows beside the record. The default is nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Additions {
    /// What of the record the document lacks, as a sentence.
    pub left_out: Option<String>,
    /// Which threads exchange data.
    pub exchanges: Option<Exchanges>,
    /// What the machine can do at most.
    pub ceilings: Option<Ceilings>,
}

/// The exchanges between threads, which are in the order of their creation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exchanges {
    /// What is counted and where that comes from, in a sentence.
    pub counted: String,
    /// What one count is: `line`.
    pub unit: &'static str,
    /// By thread that wrote and thread that read; both directions are added.
    pub pairs: Vec<Vec<u64>>,
}

/// The ceilings of a roofline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ceilings {
    /// Where they come from, such as `the model e5-4650x4`.
    pub source: String,
    /// Instructions per second of all cores, if no access misses the first cache.
    pub instructions: f64,
    /// Bytes per second of the memory of one node.
    pub node_bandwidth: f64,
    /// The number of nodes.
    pub nodes: usize,
}
