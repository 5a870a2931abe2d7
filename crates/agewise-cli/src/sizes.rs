//! `--sizes`: a law to draw data sizes from, or a file that has them.

use super::Failure;
use agewise_core::{Seed, SizeDistribution, Sizes};
use std::borrow::Cow;
use std::fs;
use std::path::Path;

/// Sizes with the words that describe them.
pub(crate) struct DescribedSizes {
    pub(crate) sizes: Sizes,
    pub(crate) description: String,
}

/// Draws the sizes by the law that `text` names, or reads the file that it names.
pub(crate) fn load(text: &str, clients: u32, seed: Seed) -> Result<DescribedSizes, Failure> {
    let sizes = match law_or_list(text)? {
        (_, Some(list)) => Sizes::new(list)?,
        (law, None) => law.parse::<SizeDistribution>()?.draw(clients, seed)?,
    };
    let is_law = text.parse::<SizeDistribution>().is_ok();
    let name = Path::new(text).file_name().filter(|_| !is_law).map(|name| name.to_string_lossy());
    Ok(DescribedSizes { sizes, description: name.map_or(text.to_string(), Cow::into_owned) })
}

/// The law that `text` names; or the numbers in the file that it names, and the law `equal`.
pub(crate) fn law_or_list(text: &str) -> Result<(String, Option<Vec<f64>>), Failure> {
    let wrong = match text.parse::<SizeDistribution>() {
        Ok(law) => return Ok((law.to_string(), None)),
        Err(error) => error,
    };
    let path = Path::new(text);
    if !path.is_file() {
        return Err(Failure::BadInput(format!("{wrong}, or the name of a file that exists")));
    }
    let contents = fs::read_to_string(path).map_err(|error| {
        Failure::BadInput(format!("sizes = {text}: cannot read this file: {error}"))
    })?;
    Ok((SizeDistribution::Equal.to_string(), Some(parse(text, &contents)?)))
}

/// Numbers separated by white space or commas; `#` starts a comment.
fn parse(name: &str, contents: &str) -> Result<Vec<f64>, Failure> {
    let mut sizes = Vec::new();
    for (line, text) in (1..).zip(contents.lines()) {
        let numbers = text.split('#').next().unwrap_or("");
        let words = numbers.split(|c: char| c == ',' || c.is_whitespace());
        for word in words.filter(|word| !word.is_empty()) {
            let size = word.parse().map_err(|_| {
                Failure::BadInput(format!("{name}, line {line} = {word}: expected a number"))
            })?;
            sizes.push(size);
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_may_be_separated_as_you_like() {
        let sizes = parse("f", "1, 2\n3 # three\n\n# nothing\n4.5,,\n").unwrap();
        assert_eq!(sizes, [1.0, 2.0, 3.0, 4.5]);
        let error = format!("{:?}", parse("f", "1\nx\n").unwrap_err());
        assert!(error.contains("f, line 2 = x: expected a number"), "{error}");
    }
}
