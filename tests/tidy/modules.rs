//! The modules of a crate: which file defines what a path names.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    slice,
};

use crate::{
    paths::{leaves, module_at, module_of},
    source::{Kind, Source},
};

/// A longer chain of imports leads back to itself.
const MAX_IMPORTS: usize = 16;

/// The modules of the crate whose files are below one folder, tests excluded.
pub struct Crate<'a> {
    modules: BTreeMap<Vec<String>, Module<'a>>,
}

struct Module<'a> {
    source: &'a Source,
    items: BTreeSet<String>,
    imports: Vec<Import>,
}

/// One leaf of a `use` tree.
pub struct Import {
    /// Where it ends in the tokens of its file.
    pub at: usize,
    /// The tokens of the whole tree.
    pub tree: Range<usize>,
    pub public: bool,
    /// What it is called in this module; none for `*`.
    pub name: Option<String>,
    /// The module that `segments` begin in.
    module: Vec<String>,
    segments: Vec<String>,
}

/// What a path names.
pub enum Target<'a> {
    Module(Vec<String>),
    /// Something that this file defines.
    Item(&'a Source),
}

impl<'a> Crate<'a> {
    pub fn new(root: &str, sources: &'a [Source]) -> Self {
        let whole = |source: &Source| source.test_code().contains(&(0..source.tokens.len()));
        let files = sources.iter().filter(|source| source.path.starts_with(root) && !whole(source));
        let modules = files.filter_map(|source| {
            let mut path = module_of(root, &source.path);
            // A program is a crate of its own.
            if path == ["main"] {
                return None;
            }
            if path == ["lib"] {
                path.clear();
            }
            let imports = imports(source, &path);
            Some((path, Module { source, items: items(source), imports }))
        });
        Self { modules: modules.collect() }
    }

    pub fn sources(&self) -> impl Iterator<Item = (&[String], &'a Source)> {
        self.modules.iter().map(|(path, module)| (path.as_slice(), module.source))
    }

    pub fn imports(&self, module: &[String]) -> &[Import] {
        self.modules.get(module).map_or(&[], |module| &module.imports)
    }

    /// The file that an import depends on. A module alone is none: what is used of it counts.
    pub fn imported(&self, import: &Import) -> Option<&'a Source> {
        match self.resolve(&import.module, &import.segments)? {
            Target::Item(source) => Some(source),
            Target::Module(path) if import.name.is_none() => Some(self.modules.get(&path)?.source),
            Target::Module(_) => None,
        }
    }

    /// What the path `segments` names in `module`; none if that is outside the crate.
    pub fn resolve(&self, module: &[String], segments: &[String]) -> Option<Target<'a>> {
        self.walk(module, segments, MAX_IMPORTS)
    }

    fn walk(&self, module: &[String], segments: &[String], left: usize) -> Option<Target<'a>> {
        let left = left.checked_sub(1)?;
        let mut here = module.to_vec();
        for (index, segment) in segments.iter().enumerate() {
            match segment.as_str() {
                "crate" => here.clear(),
                "self" | "*" => {}
                "super" => drop(here.pop()),
                name => {
                    let child = [here.as_slice(), slice::from_ref(segment)].concat();
                    let inside = self.modules.get(&here);
                    if self.modules.contains_key(&child) {
                        // An item may have the name of its module: `mod open; pub use open::open;`.
                        let last = index + 1 == segments.len();
                        let named = inside.filter(|_| last);
                        match named.and_then(|inside| self.through_imports(inside, segment, left)) {
                            Some(Target::Item(source)) => return Some(Target::Item(source)),
                            _ => here = child,
                        }
                        continue;
                    }
                    let inside = inside?;
                    if inside.items.contains(name) {
                        return Some(Target::Item(inside.source));
                    }
                    match self.through_imports(inside, segment, left) {
                        Some(Target::Module(path)) => here = path,
                        Some(item) => return Some(item),
                        // What a macro defines is known by its path alone.
                        None if index > 0 => return Some(Target::Item(inside.source)),
                        None => return None,
                    }
                }
            }
        }
        Some(Target::Module(here))
    }

    /// What `module` has imported as `name`.
    fn through_imports(
        &self,
        module: &Module<'a>,
        name: &String,
        left: usize,
    ) -> Option<Target<'a>> {
        let named = module.imports.iter().find(|import| import.name.as_ref() == Some(name));
        if let Some(import) = named {
            return self.walk(&import.module, &import.segments, left);
        }
        let globs = module.imports.iter().filter(|import| import.name.is_none());
        for glob in globs {
            let Some(Target::Module(from)) = self.walk(&glob.module, &glob.segments, left) else {
                continue;
            };
            let Some(inside) = self.modules.get(&from) else { continue };
            if inside.items.contains(name) {
                return Some(Target::Item(inside.source));
            }
            if let Some(found) = self.through_imports(inside, name, left.checked_sub(1)?) {
                return Some(found);
            }
        }
        None
    }
}

/// The names that the file defines, not counting those inside of its items.
fn items(source: &Source) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut at = 0;
    while let Some(token) = source.tokens.get(at) {
        match (token.kind, token.text.as_str()) {
            (Kind::Open, _) => at = token.mate,
            (
                Kind::Ident,
                "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "fn",
            ) => {
                found.insert(source.text(at + 1).to_owned());
            }
            (Kind::Ident, "mod") if source.text(at + 2) == "{" => {
                found.insert(source.text(at + 1).to_owned());
            }
            (Kind::Ident, "macro_rules") => {
                found.insert(source.text(at + 2).to_owned());
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn imports(source: &Source, module: &[String]) -> Vec<Import> {
    let tests = source.test_code();
    let trees = source.use_trees().into_iter();
    let trees = trees.filter(|tree| !tests.iter().any(|test| test.contains(&tree.start)));
    trees
        .flat_map(|tree| {
            let module = module_at(source, module, tree.start);
            let public = tree.start > 0 && matches!(source.text(tree.start - 1), "pub" | ")");
            leaves(source, tree.start + 1).into_iter().map(move |leaf| {
                let mut segments = leaf.segments;
                if segments.len() > 1 && segments.last().is_some_and(|last| last == "self") {
                    segments.pop();
                }
                let name = match source.text(leaf.end + 1) {
                    "as" => Some(source.text(leaf.end + 2).to_owned()),
                    _ => segments.last().filter(|last| *last != "*").cloned(),
                };
                Import {
                    at: leaf.end,
                    tree: tree.clone(),
                    public,
                    name,
                    module: module.clone(),
                    segments,
                }
            })
        })
        .collect()
}
