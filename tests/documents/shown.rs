//! The documents show what is in the repository: the programs of docs/clients.md are its files, bodies are in ADK's form, and the tests
//! that docs/security.md names are there.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::Value;

const CLIENTS: &str = include_str!("../../docs/clients.md");
const SECURITY: &str = include_str!("../../docs/security.md");
const TUTORIAL: &str = include_str!("../../docs/tutorial.md");

/// Each line `[`name`](../path):` of the document that shows a file, as the path and the block below it.
fn shown_files() -> Vec<(&'static str, &'static str)> {
    let found = CLIENTS.split("](../examples/clients/").skip(1).filter_map(|text| {
        let (path, rest) = text.split_once("):\n\n```")?;
        let (_, block) = rest.split_once('\n')?;
        let (block, _) = block.split_once("\n```\n")?;
        (!path.contains('\n')).then_some((path, block))
    });
    found.collect()
}

#[test]
fn the_programs_of_the_clients_document_are_the_files() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/clients");
    let shown = shown_files();
    for (path, block) in &shown {
        let file = fs::read_to_string(examples.join(path)).unwrap();
        assert!(file.trim_end() == *block, "docs/clients.md and examples/clients/{path} differ");
    }
    let paths: Vec<_> = shown.iter().map(|(path, _)| *path).collect();
    for language in ["python", "go", "typescript", "java"] {
        assert!(paths.iter().any(|path| path.starts_with(language)), "no program in {language}");
    }
}

#[test]
fn the_tutorial_writes_bodies_in_the_form_of_adk() {
    let mut count = 0;
    for marker in ["--body '", "\"body\": "] {
        for text in TUTORIAL.split(marker).skip(1) {
            let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
            let body = values.next().unwrap().unwrap();
            let part = &body["content"]["parts"][0];
            assert!(body["content"]["role"] == "user" && part["text"].is_string(), "{body}");
            count += 1;
        }
    }
    assert_eq!(count, 4, "the bodies were found");
}

#[test]
fn links_between_documents_lead_to_headings() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut links = 0;
    for page in pages(root) {
        let text = fs::read_to_string(&page).unwrap();
        let prose: String = text.split("\n```").step_by(2).collect();
        for link in prose.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            if link.contains("://") {
                continue;
            }
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                _ => page.parent().unwrap().join(path),
            };
            assert!(target.exists(), "{}: {link}", page.display());
            if !heading.is_empty() {
                let there = headings(&fs::read_to_string(&target).unwrap());
                assert!(there.iter().any(|it| it == heading), "{}: {link}", page.display());
            }
            links += 1;
        }
    }
    assert!(links > 100, "the links were found");
}

/// The documents of the root, of docs/ and of the adapters.
fn pages(root: &Path) -> Vec<PathBuf> {
    let clients = fs::read_dir(root.join("clients")).unwrap().map(|it| it.unwrap().path());
    let folders = [root.to_owned(), root.join("docs")].into_iter().chain(clients);
    let files = folders.filter(|it| it.is_dir()).flat_map(|it| fs::read_dir(it).unwrap());
    files
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "md"))
        .collect()
}

/// The anchors of a page's headings.
fn headings(text: &str) -> Vec<String> {
    let kept = |letter: &char| letter.is_alphanumeric() || " -_".contains(*letter);
    let titles = text
        .lines()
        .filter_map(|line| Some(line.strip_prefix('#')?.trim_start_matches('#').trim()));
    titles
        .map(|title| {
            title.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-")
        })
        .collect()
}

/// The paths that a text names in backquotes, each perhaps with a function.
fn named_tests(text: &str) -> Vec<(&str, Option<&str>)> {
    let names = text.split('`').skip(1).step_by(2);
    let named = names.filter_map(|name| match name.split_once("::") {
        Some((path, function)) => path.ends_with(".rs").then_some((path, Some(function))),
        None => name.ends_with(".rs").then_some((name, None)),
    });
    named.collect()
}

#[test]
fn every_statement_about_security_names_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut statements = 0;
    for section in SECURITY.split("\n## ").filter(|section| section.starts_with("Protected")) {
        // Below the head of its table.
        for row in section.lines().filter(|line| line.starts_with('|')).skip(2) {
            let tests = named_tests(row);
            assert!(!tests.is_empty(), "no test holds: {row}");
            for (path, function) in tests {
                let source = fs::read_to_string(root.join(path)).expect(path);
                let wanted = function.map_or("```compile_fail".into(), |it| format!("fn {it}("));
                assert!(source.contains(&wanted), "{path} has no {wanted}");
            }
            statements += 1;
        }
    }
    assert!(statements > 20, "the tables were found");
}
