//! A data set as our engine trains on it: images or numbers, and whose samples they are if that is known.

use super::checksum::AlteredFile;
use super::images::{Dataset, ImageShape, Images};
use super::table::{Labels, Scaling, Table};
use agewise_core::{Draws, Error, Result, Seed, Stream};
use rand_core::Rng;
use std::sync::Arc;

/// Which samples are held out.
const HELD_OUT: Stream = Stream::custom(104);

/// Samples of one split.
#[derive(Debug, Clone)]
pub enum SampleSet {
    /// Images as bytes.
    Images(Images),
    /// Numbers.
    Table(Table),
}

impl SampleSet {
    /// The number of samples.
    pub fn len(&self) -> usize {
        match self {
            Self::Images(images) => images.len(),
            Self::Table(table) => table.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The shape of a sample.
    pub fn shape(&self) -> ImageShape {
        match self {
            Self::Images(images) => images.shape(),
            Self::Table(table) => table.shape(),
        }
    }

    /// The number of classes; 0 where numbers are predicted.
    pub fn classes(&self) -> u32 {
        match self {
            Self::Images(images) => images.classes(),
            Self::Table(table) => table.labels().classes(),
        }
    }

    /// How many outputs a model needs: one score for each class, or the number itself.
    pub fn outputs(&self) -> usize {
        (self.classes() as usize).max(1)
    }

    /// The class of each sample; nothing where numbers are predicted.
    pub fn class_labels(&self) -> Option<&[u8]> {
        match self {
            Self::Images(images) => Some(images.labels()),
            Self::Table(table) => match table.labels() {
                Labels::Classes { labels, .. } => Some(labels),
                Labels::Numbers(_) => None,
            },
        }
    }

    /// How many samples each class has; empty where numbers are predicted.
    pub fn class_counts(&self) -> Vec<u32> {
        let mut counts = vec![0; self.classes() as usize];
        for &label in self.class_labels().unwrap_or_default() {
            counts[usize::from(label)] += 1;
        }
        counts
    }

    /// Some of the samples, in this order.
    fn take(&self, indices: &[u32]) -> Result<Self> {
        Ok(match self {
            Self::Table(table) => Self::Table(table.take(indices)),
            Self::Images(images) => {
                let indices = || indices.iter().map(|&index| index as usize);
                let pixels: Vec<u8> = indices().flat_map(|i| images.image(i)).copied().collect();
                let labels: Vec<u8> = indices().map(|index| images.label(index)).collect();
                Self::Images(Images::new(images.shape(), images.classes(), pixels, labels)?)
            }
        })
    }
}

/// Whose the training samples are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NaturalClients {
    names: Arc<[String]>,
    owners: Arc<[u32]>,
}

impl NaturalClients {
    /// Clients from the name of each sample's owner. They are numbered by name; names that are numbers by their
    /// value.
    pub fn new<T: AsRef<str>>(owners: &[T]) -> Self {
        let mut names: Vec<&str> = owners.iter().map(AsRef::as_ref).collect();
        sort_names(&mut names);
        let number = |name: &str| {
            let place = names.binary_search_by(|other| compare_names(other, name));
            // Every owner is among the names.
            place.unwrap_or_default() as u32
        };
        let owners = owners.iter().map(|owner| number(owner.as_ref())).collect();
        Self { names: names.iter().map(|name| (*name).to_string()).collect(), owners }
    }

    /// The number of clients.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The names of the clients.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The client of each training sample.
    pub fn owners(&self) -> &[u32] {
        &self.owners
    }

    /// How many samples each client has.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![0; self.len()];
        for &owner in self.owners.iter() {
            sizes[owner as usize] += 1;
        }
        sizes
    }

    fn take(&self, indices: &[u32]) -> Self {
        let owners = indices.iter().map(|&index| self.owners[index as usize]).collect();
        Self { names: Arc::clone(&self.names), owners }
    }
}

/// Sorts names, each once: numbers by their value and before all others.
pub(super) fn sort_names(names: &mut Vec<&str>) {
    names.sort_unstable_by(|a, b| compare_names(a, b));
    names.dedup();
}

fn compare_names(a: &str, b: &str) -> std::cmp::Ordering {
    let number = |name: &str| name.parse::<f64>().ok().filter(|number| number.is_finite());
    let by_value = match (number(a), number(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        // Numbers come first.
        (a, b) => b.is_some().cmp(&a.is_some()),
    };
    by_value.then_with(|| a.cmp(b))
}

/// A data set: samples to learn from, others to be tested on, and whose they are.
#[derive(Debug, Clone)]
pub struct Data {
    /// What it is called.
    pub name: String,
    /// The samples that clients share.
    pub train: SampleSet,
    /// The samples on which models are tested.
    pub test: SampleSet,
    /// Whose the training samples are, where that is known.
    pub clients: Option<NaturalClients>,
    /// The names of the classes; empty where they are only numbers.
    pub class_names: Vec<String>,
    /// The names of the features; empty where they have none.
    pub feature_names: Vec<String>,
    /// How the numbers of tables were scaled; empty where they were not.
    pub scaling: Scaling,
    /// Files that are not those that were published.
    pub altered: Vec<AlteredFile>,
}

impl From<Dataset> for Data {
    fn from(dataset: Dataset) -> Self {
        let Dataset { name, train, test, clients, altered } = dataset;
        let (train, test) = (SampleSet::Images(train), SampleSet::Images(test));
        Self { clients, altered, ..Self::new(name, train, test) }
    }
}

impl Data {
    /// Samples of no particular clients.
    pub fn new(name: impl Into<String>, train: SampleSet, test: SampleSet) -> Self {
        Self {
            name: name.into(),
            train,
            test,
            clients: None,
            class_names: Vec::new(),
            feature_names: Vec::new(),
            scaling: Scaling::default(),
            altered: Vec::new(),
        }
    }

    /// The same as images, if they are images.
    pub fn images(&self) -> Option<(&Images, &Images)> {
        match (&self.train, &self.test) {
            (SampleSet::Images(train), SampleSet::Images(test)) => Some((train, test)),
            _ => None,
        }
    }

    /// The same with a share of each client's samples as test samples; of each class where clients are not known. No
    /// client or class loses its last sample.
    pub fn hold_out(self, share: f64, seed: Seed) -> Result<Self> {
        if !(share > 0.0 && share < 1.0) {
            return Err(Error::new("holdout", share, "a share above 0 and below 1"));
        }
        let groups = self.groups();
        let draws = Draws::new(seed, HELD_OUT, 0);
        let (mut kept, mut held) = (Vec::new(), Vec::new());
        for (number, mut group) in (0..).zip(groups) {
            let count = (share * group.len() as f64).round() as usize;
            let count = count.min(group.len().saturating_sub(1));
            let mut numbers = draws.sequence(number);
            for place in 0..count {
                // A number below what is left, by the high half of a product.
                let left = (group.len() - place) as u128;
                let other = place + ((u128::from(numbers.next_u64()) * left) >> 64) as usize;
                group.swap(place, other);
            }
            held.extend_from_slice(&group[..count]);
            kept.extend_from_slice(&group[count..]);
        }
        if held.is_empty() {
            let expected = "a share that is at least half a sample of some client (or --test FILE)";
            return Err(Error::new("holdout", share, expected));
        }
        kept.sort_unstable();
        held.sort_unstable();
        Ok(Self {
            test: self.train.take(&held)?,
            train: self.train.take(&kept)?,
            clients: self.clients.as_ref().map(|clients| clients.take(&kept)),
            ..self
        })
    }

    /// The samples that are divided apart from each other when some are held out.
    fn groups(&self) -> Vec<Vec<u32>> {
        let all = 0..self.train.len() as u32;
        let group_of = |count: usize, number: &dyn Fn(u32) -> usize| {
            let mut groups = vec![Vec::new(); count];
            for sample in all.clone() {
                groups[number(sample)].push(sample);
            }
            groups
        };
        match (&self.clients, self.train.class_labels()) {
            (Some(clients), _) => {
                group_of(clients.len(), &|sample| clients.owners[sample as usize] as usize)
            }
            (None, Some(labels)) => group_of(self.train.classes() as usize, &|sample| {
                usize::from(labels[sample as usize])
            }),
            (None, None) => group_of(1, &|_| 0),
        }
    }

    /// The same with mean 0 and deviation 1 in each feature of the training samples, and in the labels where those are
    /// numbers. Images are left as they are: their pixels have a scale of their own.
    #[must_use]
    pub fn standardised(self) -> Self {
        let (SampleSet::Table(train), SampleSet::Table(test)) = (&self.train, &self.test) else {
            return self;
        };
        let scaling = Scaling::standard(train);
        Self {
            train: SampleSet::Table(scaling.apply(train)),
            test: SampleSet::Table(scaling.apply(test)),
            scaling,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(owners: &[&str]) -> Data {
        let features: Vec<f32> = (0..owners.len()).map(|index| index as f32).collect();
        let labels = Labels::Numbers(features.clone().into());
        let train = Table::new(ImageShape::flat(1), features, labels).unwrap();
        let test = SampleSet::Table(train.take(&[]));
        let clients = Some(NaturalClients::new(owners));
        Data { clients, ..Data::new("made-up", SampleSet::Table(train), test) }
    }

    #[test]
    fn clients_are_numbered_by_name() {
        let clients = NaturalClients::new(&["10", "b", "9", "10", "a"]);
        assert_eq!(clients.names(), ["9", "10", "a", "b"]);
        assert_eq!(clients.owners(), [1, 3, 0, 1, 2]);
        assert_eq!(clients.sizes(), [1, 2, 1, 1]);
    }

    #[test]
    fn a_share_of_each_client_is_held_out_and_every_client_stays() {
        let owners: Vec<&str> = ["a"; 10].into_iter().chain(["b"; 5]).chain(["c"]).collect();
        let held = data(&owners).hold_out(0.2, Seed(3)).unwrap();
        assert_eq!((held.train.len(), held.test.len()), (13, 3));
        assert_eq!(held.clients.as_ref().unwrap().sizes(), [8, 4, 1]);
        let again = data(&owners).hold_out(0.2, Seed(3)).unwrap();
        let other = data(&owners).hold_out(0.2, Seed(4)).unwrap();
        let features = |data: &Data| match &data.test {
            SampleSet::Table(table) => table.features().to_vec(),
            SampleSet::Images(_) => Vec::new(),
        };
        assert_eq!(features(&held), features(&again));
        assert_ne!(features(&held), features(&other));
        for share in [0.0, 1.0, f64::NAN, 0.01] {
            assert_eq!(data(&owners).hold_out(share, Seed(3)).unwrap_err().field(), "holdout");
        }
    }
}
