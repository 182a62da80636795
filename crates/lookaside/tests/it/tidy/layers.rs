//! Import cycles between the modules of a crate.
//!
//! An edge goes from a module to the one that defines what a path in it names: in a `use`, or inline,
//! from `crate`, `self` or `super` on. A re-exported name belongs to the module that defines it. Edges are
//! compared between siblings: a path from `a::b` to `c::d` is an edge from `a` to `c`, and one from `a::b`
//! to `a::d` an edge from `b` to `d` within `a`. A parent and its own children may use each other. Code
//! for tests is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::{assert_none, root};

/// The names from the crate's root to a module; empty for the root.
type ModulePath = Vec<String>;

/// Siblings that import each other.
struct Cycle {
    parent: ModulePath,
    modules: Vec<String>,
    /// Each import that is a part of it, as a line.
    imports: Vec<String>,
}

#[derive(Default)]
struct Module {
    /// Names imported by `use`, with their absolute paths; `None` for those of other crates.
    imported: BTreeMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    defined: BTreeSet<String>,
    /// Absolute paths in its code.
    named: BTreeSet<Vec<String>>,
}

/// The modules of a crate.
#[derive(Default)]
struct Modules(BTreeMap<ModulePath, Module>);

impl Modules {
    /// Reads the module in a file and all below it.
    fn read(root: &Path) -> Self {
        let mut modules = Self::default();
        let folder = root.parent().expect("a file lies in a folder");
        modules.add_file(root, folder, Vec::new());
        modules
    }

    fn add_file(&mut self, file: &Path, folder: &Path, path: ModulePath) {
        let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        self.add(&parsed.items, folder, path);
    }

    /// Adds a module; `folder` holds the files of its children.
    fn add(&mut self, items: &[syn::Item], folder: &Path, path: ModulePath) {
        let mut children = Vec::new();
        let mut collector = Collector::default();
        for item in items {
            if is_for_tests(attributes(item)) {
                continue;
            }
            if let syn::Item::Mod(item) = item {
                children.push(item);
            }
            collector.define(item);
            collector.visit_item(item);
        }
        let names: BTreeSet<_> = children.iter().map(|item| item.ident.to_string()).collect();
        let mut module = Module {
            defined: collector.defined,
            ..Module::default()
        };
        let absolute = |segments: &[String]| absolute(&path, &names, segments);
        for (segments, name) in &collector.uses {
            let Some(target) = absolute(segments) else {
                continue;
            };
            match name {
                Some(name) => drop(module.imported.insert(name.clone(), target.clone())),
                None => module.globs.push(target.clone()),
            }
            module.named.insert(target);
        }
        module
            .named
            .extend(collector.paths.iter().filter_map(|it| absolute(it)));
        self.0.insert(path.clone(), module);
        for item in children {
            let name = item.ident.to_string();
            let child = [path.clone(), vec![name.clone()]].concat();
            let below = folder.join(&name);
            match &item.content {
                Some((_, items)) => self.add(items, &below, child),
                None => {
                    let files = [folder.join(format!("{name}.rs")), below.join("mod.rs")];
                    let file = named_file(item, folder)
                        .or_else(|| files.into_iter().find(|file| file.exists()));
                    let file = file.unwrap_or_else(|| panic!("no file of module {child:?}"));
                    self.add_file(&file, &below, child);
                }
            }
        }
    }

    /// The module that defines the item of an absolute path.
    fn resolve(&self, segments: &[String]) -> ModulePath {
        self.resolve_within(segments, 16)
    }

    fn resolve_within(&self, segments: &[String], depth: usize) -> ModulePath {
        let mut at = Vec::new();
        for (index, segment) in segments.iter().enumerate() {
            let child = [at.clone(), vec![segment.clone()]].concat();
            if self.0.contains_key(&child) {
                at = child;
                continue;
            }
            let module = &self.0[&at];
            if depth == 0 || module.defined.contains(segment) {
                return at;
            }
            let rest = &segments[index + 1..];
            if let Some(target) = module.imported.get(segment) {
                if target[..] == segments[..=index] {
                    return at;
                }
                return self.resolve_within(&[target, rest].concat(), depth - 1);
            }
            let globs = module.globs.iter();
            let mut globs = globs.map(|glob| self.resolve_within(glob, depth - 1));
            return match globs.find(|found| self.has(found, segment)) {
                Some(found) => {
                    let path = [&found[..], &segments[index..]].concat();
                    self.resolve_within(&path, depth - 1)
                }
                None => at,
            };
        }
        at
    }

    fn has(&self, path: &ModulePath, name: &String) -> bool {
        let module = &self.0[path];
        module.defined.contains(name)
            || module.imported.contains_key(name)
            || self
                .0
                .contains_key(&[path.clone(), vec![name.clone()]].concat())
    }

    fn cycles(&self) -> Vec<Cycle> {
        /// The two siblings, and the imports from the first to the second.
        type Edges = BTreeMap<(String, String), Vec<String>>;
        let mut edges: BTreeMap<ModulePath, Edges> = BTreeMap::new();
        for (from, module) in &self.0 {
            for segments in &module.named {
                let to = self.resolve(segments);
                let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                if common == from.len() || common == to.len() {
                    continue;
                }
                let edge = (from[common].clone(), to[common].clone());
                let import = format!("{} imports {}", from.join("::"), segments.join("::"));
                let of_parent = edges.entry(from[..common].to_vec()).or_default();
                of_parent.entry(edge).or_default().push(import);
            }
        }
        let of_parent = |(parent, edges): (ModulePath, Edges)| {
            let found = components(&edges.keys().cloned().collect());
            found.into_iter().map(move |modules| {
                let within = |(a, b): &(String, String)| modules.contains(a) && modules.contains(b);
                let imports = edges.iter().filter(|(edge, _)| within(edge));
                let imports = imports.flat_map(|(_, imports)| imports).cloned().collect();
                Cycle {
                    parent: parent.clone(),
                    modules,
                    imports,
                }
            })
        };
        edges.into_iter().flat_map(of_parent).collect()
    }
}

/// The strongly connected components of more than one node: nodes that reach each other.
fn components(edges: &BTreeSet<(String, String)>) -> Vec<Vec<String>> {
    let nodes: BTreeSet<_> = edges.iter().flat_map(|(a, b)| [a, b]).collect();
    let reached = |start: &String| {
        let mut found = BTreeSet::new();
        let mut open = vec![start];
        while let Some(node) = open.pop() {
            for (_, to) in edges.iter().filter(|(from, _)| from == node) {
                if found.insert(to) {
                    open.push(to);
                }
            }
        }
        found
    };
    let reached: BTreeMap<_, _> = nodes.iter().map(|node| (*node, reached(node))).collect();
    let mut components: Vec<Vec<String>> = Vec::new();
    for node in &nodes {
        if components.iter().flatten().any(|known| known == *node) {
            continue;
        }
        let others = reached[node]
            .iter()
            .filter(|other| reached[**other].contains(node));
        let component: Vec<_> = others.map(|other| (*other).clone()).collect();
        if component.len() > 1 {
            components.push(component);
        }
    }
    components
}

/// The path from the crate's root, or `None` for one into another crate.
fn absolute(
    module: &[String],
    children: &BTreeSet<String>,
    segments: &[String],
) -> Option<Vec<String>> {
    match segments.first()?.as_str() {
        "crate" => Some(segments[1..].to_vec()),
        "self" => Some([module, &segments[1..]].concat()),
        "super" => {
            let up = segments.iter().take_while(|it| *it == "super").count();
            let parent = &module[..module.len().checked_sub(up)?];
            Some([parent, &segments[up..]].concat())
        }
        name if children.contains(name) => Some([module, segments].concat()),
        _ => None,
    }
}

/// The file that a `#[path]` names.
fn named_file(item: &syn::ItemMod, folder: &Path) -> Option<PathBuf> {
    let attribute = item.attrs.iter().find(|it| it.path().is_ident("path"))?;
    let value = &attribute.meta.require_name_value().ok()?.value;
    match value {
        syn::Expr::Lit(syn::ExprLit {
            lit: syn::Lit::Str(text),
            ..
        }) => Some(folder.join(text.value())),
        _ => None,
    }
}

/// Whether `#[cfg(test)]`, or another `cfg` that requires `test`, or `#[test]` is among the
/// attributes.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string();
            let words: Vec<_> = text.split(|c: char| !c.is_alphanumeric()).collect();
            words.contains(&"test") && !words.contains(&"not")
        }
        _ => false,
    })
}

pub(super) fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(it) => &it.attrs,
        syn::Item::Enum(it) => &it.attrs,
        syn::Item::Fn(it) => &it.attrs,
        syn::Item::Impl(it) => &it.attrs,
        syn::Item::Macro(it) => &it.attrs,
        syn::Item::Mod(it) => &it.attrs,
        syn::Item::Static(it) => &it.attrs,
        syn::Item::Struct(it) => &it.attrs,
        syn::Item::Trait(it) => &it.attrs,
        syn::Item::Type(it) => &it.attrs,
        syn::Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// What a module's items define and name.
#[derive(Default)]
struct Collector {
    defined: BTreeSet<String>,
    /// Paths of `use` with the name that each imports, `None` for a glob.
    uses: Vec<(Vec<String>, Option<String>)>,
    paths: BTreeSet<Vec<String>>,
}

impl Collector {
    fn define(&mut self, item: &syn::Item) {
        let name = match item {
            syn::Item::Const(it) => &it.ident,
            syn::Item::Enum(it) => &it.ident,
            syn::Item::Fn(it) => &it.sig.ident,
            syn::Item::Macro(syn::ItemMacro {
                ident: Some(ident), ..
            }) => ident,
            syn::Item::Static(it) => &it.ident,
            syn::Item::Struct(it) => &it.ident,
            syn::Item::Trait(it) => &it.ident,
            syn::Item::Type(it) => &it.ident,
            syn::Item::Union(it) => &it.ident,
            _ => return,
        };
        self.defined.insert(name.to_string());
    }

    fn use_tree(&mut self, tree: &syn::UseTree, before: &[String]) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            syn::UseTree::Path(it) => self.use_tree(&it.tree, &with(it.ident.to_string())),
            syn::UseTree::Name(it) if it.ident == "self" => {
                self.uses.push((before.to_vec(), before.last().cloned()));
            }
            syn::UseTree::Name(it) => {
                let name = it.ident.to_string();
                self.uses.push((with(name.clone()), Some(name)));
            }
            syn::UseTree::Rename(it) => {
                let path = if it.ident == "self" {
                    before.to_vec()
                } else {
                    with(it.ident.to_string())
                };
                self.uses.push((path, Some(it.rename.to_string())));
            }
            syn::UseTree::Glob(_) => self.uses.push((before.to_vec(), None)),
            syn::UseTree::Group(it) => {
                for tree in &it.items {
                    self.use_tree(tree, before);
                }
            }
        }
    }

    /// Paths in the arguments of macros, which are tokens only.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 || path.is_empty() {
                        self.end_path(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end_path(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end_path(&mut path);
    }

    fn end_path(&mut self, path: &mut Vec<String>) {
        let path = std::mem::take(path);
        if path.len() > 1 && ["crate", "self", "super"].contains(&path[0].as_str()) {
            self.paths.insert(path);
        }
    }
}

impl Visit<'_> for Collector {
    fn visit_item(&mut self, item: &syn::Item) {
        if !is_for_tests(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    /// Modules are separate nodes.
    fn visit_item_mod(&mut self, _: &syn::ItemMod) {}

    fn visit_item_use(&mut self, item: &syn::ItemUse) {
        self.use_tree(&item.tree, &[]);
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        if !is_for_tests(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let segments = path.segments.iter().map(|it| it.ident.to_string());
        self.end_path(&mut segments.collect());
        visit::visit_path(self, path);
    }

    fn visit_vis_restricted(&mut self, _: &syn::VisRestricted) {}

    fn visit_macro(&mut self, mac: &syn::Macro) {
        self.tokens(mac.tokens.clone());
        visit::visit_macro(self, mac);
    }
}

/// The checked root modules of each crate, with the crate's name.
fn roots() -> Vec<(String, PathBuf)> {
    let mut roots = Vec::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let files = ["src/lib.rs", "src/main.rs"].map(|file| path.join(file));
        roots.extend(
            files
                .into_iter()
                .filter(|it| it.exists())
                .map(|it| (name.clone(), it)),
        );
    }
    roots.sort();
    roots
}

#[test]
fn modules_import_downwards() {
    let mut wrong = Vec::new();
    for (name, root) in roots() {
        for cycle in Modules::read(&root).cycles() {
            let (parent, modules) = (cycle.parent.join("::"), cycle.modules.join(" "));
            let imports = cycle.imports.join("\n      ");
            wrong.push(format!("{name} [{parent}] {modules}:\n      {imports}"));
        }
    }
    assert_none(wrong, "modules that import each other");
}

/// Cycles of each form in small crates, each given by its files.
#[test]
fn import_cycles_of_each_form_are_found() {
    let check = |files: &[(&str, &str)], expected: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let cycles = Modules::read(&folder.path().join("lib.rs")).cycles();
        let found = cycles
            .iter()
            .map(|it| format!("{}: {}", it.parent.join("::"), it.modules.join(" ")));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{files:?}");
    };
    let two = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::*;");
    let b = ("b.rs", "use crate::a::A; pub struct B(A);");
    for text in [
        "use crate::b::B; pub struct A(B);",
        "use super::b::B; pub struct A(B);",
        "use super::{b::{self as other}}; pub struct A(other::B);",
        "pub struct A(crate::b::B);",
        "pub struct A; impl A { fn f() { let _ = super::b::B::new(); } }",
        "pub struct A; fn f() { println!(\"{}\", [crate::b::B::new()]); }",
        // Both through reexports of the root.
        "use crate::B; pub struct A(B);",
        "use crate::b::*; pub struct A(B);",
        "pub use crate::b as other; pub struct A; mod c { use super::other::B; }",
    ] {
        check(&[two, ("a.rs", text), b], &[": a b"]);
    }
    for text in [
        "pub struct A;",
        "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
        "pub struct A; #[cfg(test)] use crate::b::B;",
        "/// [`crate::b::B`]\npub struct A(pub(in crate::a) u8);",
        "use std::b::B; pub struct A;",
    ] {
        check(&[two, ("a.rs", text), b], &[]);
    }
    // A cycle of three, siblings in a folder, and a parent with its child.
    check(
        &[
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c/mod.rs", "mod d; pub use d::C; pub struct E;"),
            ("c/d.rs", "use crate::a::A; use super::E; pub struct C;"),
        ],
        &[": a b c"],
    );
    check(
        &[
            ("lib.rs", "mod a;"),
            (
                "a.rs",
                "mod b; mod c { use super::b::B; pub struct C; } pub struct A(b::B);",
            ),
            ("a/b.rs", "use crate::a::{A, c::C}; pub struct B;"),
        ],
        &["a: b c"],
    );
}
