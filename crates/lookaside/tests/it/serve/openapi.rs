//! `/openapi.json`: it is valid by the specification, and it matches the server.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use jsonschema::{Registry, Validator};
use serde_json::{Value as Json, json};

use super::{Answer, Client, SERVED, project, serve};
use crate::program::Project;
use crate::providers::has_postgres;

/// The official schema; `testdata/openapi/README.md` states its source.
const OFFICIAL: &str = "https://spec.openapis.org/oas/3.1/schema/2022-10-07";

/// JSON Schema 2020-12, which the schemas within a document have to be.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Validates documents. The official schema accepts any object as a schema within a document,
/// unless its dynamic anchor `meta` is overridden, as is done here.
static DOCUMENT: LazyLock<Validator> = LazyLock::new(|| {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("testdata/openapi/schema-3.1-2022-10-07.json");
    let official: Json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    assert_eq!(official["$id"], OFFICIAL);
    let registry = Registry::new().add(OFFICIAL, official).unwrap();
    let registry = registry.prepare().unwrap();
    let strict = json!({
        "$schema": DIALECT,
        "$ref": OFFICIAL,
        "$defs": {"schema": {"$dynamicAnchor": "meta", "$ref": DIALECT}},
    });
    let options = jsonschema::options().with_registry(&registry);
    options.build(&strict).unwrap()
});

/// The errors of a document, each with its place.
pub(super) fn faults(document: &Json) -> Vec<String> {
    let errors = DOCUMENT.iter_errors(document);
    errors
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

fn document(client: &mut Client, headers: &[(&str, &str)]) -> Json {
    client.get_with("/openapi.json", headers).is(200).json()
}

/// Checks the rules that the specification states only in prose.
#[track_caller]
fn assert_sound(document: &Json) {
    let mut ids = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let id = operation["operationId"].as_str();
            let id = id.unwrap_or_else(|| panic!("{method} {path} has no name"));
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
            assert!(id.bytes().all(is_plain), "{id} is not a name for programs");
            ids.push(id);
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "every operation has a name of its own");
    references(document, document);
}

/// Every reference can be resolved.
fn references(document: &Json, part: &Json) {
    match part {
        Json::Object(members) => {
            if let Some(target) = members.get("$ref") {
                let pointer = target.as_str().unwrap().strip_prefix('#').unwrap();
                assert!(document.pointer(pointer).is_some(), "{target}");
            }
            members
                .values()
                .for_each(|member| references(document, member));
        }
        Json::Array(items) => items.iter().for_each(|item| references(document, item)),
        _ => {}
    }
}

#[test]
fn the_document_is_openapi() {
    // Types, texts, examples, models, keys and queries.
    let typed = "[lookups.typed]\nmany = true\ndescription = 'Of each type'\n\
                 sql = 'select :text as a, :int as b, :float as c, :bool as d, :decimal as e, :uuid as f, :ip as g, \
                 :ipv4 as h, :ipv6 as i, :net as j, :time as k'\nparams = { text = 'text', int = 'int', float = 'float', \
                 bool = 'bool', decimal = 'decimal', uuid = 'uuid', ip = 'ip', ipv4 = 'ipv4', ipv6 = 'ipv6', net = 'net', \
                 time = 'time' }\n";
    let key = "[[server.keys]]\nname = 'k'\nadmin = true\n\
               sha256 = '9834876dcfb05cb167a5c24953eba58c4ac89b1adf57f28f2f9d09af107ee8f0'\n";
    for (project, key) in [
        (project(""), "none"),
        (
            project(&format!("{typed}[server]\nquery_rows_max = 5\n")),
            "none",
        ),
        (project(&format!("{typed}{key}")), "aaa"),
        (Project::new(), "none"),
    ] {
        let running = serve(&project, &[]);
        let document = document(&mut running.client(), &[("X-API-Key", key)]);
        assert_eq!(faults(&document), [""; 0]);
        assert_sound(&document);
        assert_eq!(document.get("security").is_some(), key != "none");
    }
}

/// Checks that the validation rejects broken documents.
#[test]
fn a_broken_document_is_refused() {
    let running = serve(&project(""), &[]);
    let whole = document(&mut running.client(), &[]);
    let net = "/paths/~1v1~1lookup~1net";
    for (place, member, value) in [
        ("", "openapi", json!("3.0.0")),
        ("", "path", json!({})),
        ("/info", "title", Json::Null),
        ("/paths", "v1/x", json!({})),
        (
            "/paths/~1v1~1lookups/get/responses",
            "2000",
            json!({"description": ""}),
        ),
        (
            "/paths/~1v1~1lookups/get/responses/200",
            "description",
            json!(1),
        ),
        ("/components/responses/Problem", "description", Json::Null),
        (&format!("{net}/get/parameters/0"), "in", json!("querry")),
        // In schemas, at any place.
        (
            &format!("{net}/get/parameters/0/schema"),
            "type",
            json!("strng"),
        ),
        (
            "/components/schemas/Problem/properties/status",
            "type",
            json!("int"),
        ),
        ("/components/schemas/Problem", "required", json!("title")),
        (
            "/paths/~1v1~1status/get/responses/200/content/application~1json/schema",
            "properties",
            json!([]),
        ),
    ] {
        let mut broken = whole.clone();
        broken.pointer_mut(place).unwrap()[member] = value;
        assert_ne!(faults(&broken), [""; 0], "{place}/{member}");
    }
}

/// Asserts that the body of an answer matches the document.
#[track_caller]
pub(super) fn assert_described(document: &Json, path: &str, method: &str, answer: &Answer) {
    let responses = &document["paths"][path][method]["responses"];
    let mut response = &responses[answer.status.to_string()];
    if response.is_null() {
        response = &responses["default"];
    }
    if let Some(target) = response["$ref"].as_str() {
        response = document.pointer(&target[1..]).unwrap();
    }
    let content_type = answer.header("Content-Type").unwrap();
    let media_type = content_type.split(';').next().unwrap();
    let content = &response["content"][media_type];
    assert!(content.is_object(), "{method} {path} has no {media_type}");
    if media_type.ends_with("json") {
        let mut schema = content["schema"].clone();
        // References within a schema refer to the document.
        schema["components"] = document["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let json = answer.json();
        let faults: Vec<String> = validator
            .iter_errors(&json)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(faults, [""; 0], "{method} {path} {}", answer.text());
    }
}

#[test]
fn every_path_is_described_as_it_answers() {
    let project = project("[server]\nquery_rows_max = 5\n");
    let running = serve(&project, &[]);
    let mut client = running.client();
    let document = document(&mut client, &[]);
    let paths = document["paths"].as_object().unwrap();
    let mut known: Vec<&str> = paths.keys().map(String::as_str).collect();
    known.sort();
    // The endpoints documented for people, with a lookup for each that is served.
    let docs = include_str!("../../../../../docs/SERVE.md");
    let rows = docs.lines().filter_map(|line| line.strip_prefix("| `"));
    let requests = rows.filter_map(|row| row.split('`').next()?.split_once(' '));
    let told = requests.filter_map(|(_, target)| target.split('?').next());
    let lookups = SERVED
        .lines()
        .filter_map(|line| line.strip_prefix("[lookups."));
    let lookups = lookups.map(|name| name.trim_end_matches(']'));
    let mut expected: Vec<String> = told
        .filter(|path| path.starts_with('/') && *path != "/" && !path.contains("NAME"))
        .filter(|path| !path.contains("MODEL"))
        .chain(["/v1/tables/{name}"])
        .map(str::to_owned)
        .chain(lookups.map(|name| format!("/v1/lookup/{name}")))
        .collect();
    expected.sort();
    assert_eq!(known, expected);

    for (path, item) in paths {
        let methods = item.as_object().unwrap();
        let mut allowed = vec!["OPTIONS".to_owned()];
        allowed.extend(methods.keys().map(|method| method.to_uppercase()));
        if methods.contains_key("get") {
            allowed.push("HEAD".to_owned());
            let answer = client.get(&path.replace("{name}", "hosts"));
            // A lookup without its parameters is requested, too.
            assert!([200, 400].contains(&answer.status), "{path} {answer:?}");
            assert_described(&document, path, "get", &answer);
        }
        let refused = client.ask("DELETE", path, &[], b"").is(405);
        let mut told: Vec<&str> = refused.header("Allow").unwrap().split(", ").collect();
        told.sort();
        allowed.sort();
        assert_eq!(told, allowed, "{path}");
    }
    for (path, query, status) in [
        ("host", "?name=web-1", 200),
        ("host", "?name=none", 404),
        ("rack", "?rack=8", 200),
        ("rack", "?rack=7", 422),
    ] {
        let path = format!("/v1/lookup/{path}");
        let answer = client.get(&format!("{path}{query}")).is(status);
        assert_described(&document, &path, "get", &answer);
    }
    for (path, body, status) in [
        ("/v1/lookup/host", r#"["web-1", "none"]"#, 200),
        ("/v1/lookup/host", "[[]]", 400),
        ("/v1/lookup/rack", "[8]", 200),
        ("/v1/query", r#"{"sql":"select 1 as a"}"#, 200),
        ("/v1/query", r#"{"sql":"select"}"#, 422),
        (
            "/v1/explain",
            r#"{"sql":"select name from hosts where name = :name"}"#,
            200,
        ),
        ("/v1/explain", r#"{"sql":"select"}"#, 422),
        ("/v1/reload", "", 200),
    ] {
        let answer = client.post(path, body).is(status);
        assert_described(&document, path, "post", &answer);
    }
    let ip = &document["paths"]["/v1/lookup/net"]["get"]["parameters"][0];
    assert_eq!(ip["schema"]["format"], "ipv4");
    let row = &document["paths"]["/v1/lookup/host"]["get"]["responses"]["200"]["content"]["application/json"]
        ["schema"];
    assert_eq!(row["required"], json!(["name", "rack"]));
}

#[test]
fn issue_13_operations_have_names_for_programs() {
    let project = Project::new();
    let model = project.read("models/events.oml");
    let model = model.replace("name : events", "name : shop/event");
    project.write("models/shop/event.oml", &model);
    let running = serve(&project, &[]);
    let mut client = running.client();
    let document = document(&mut client, &[]);
    assert_sound(&document);
    let enrich = &document["paths"]["/v1/enrich/shop/event"]["post"];
    assert_eq!(enrich["operationId"], "enrich_shop__event");
}

#[test]
fn the_document_says_what_enrich_takes_and_tells() {
    let project = Project::new();
    let running = serve(&project, &[]);
    let mut client = running.client();
    let document = document(&mut client, &[]);
    let paths = document["paths"].as_object().unwrap();
    let (path, item) = paths
        .iter()
        .find(|(path, _)| path.starts_with("/v1/enrich/"))
        .unwrap();
    let enrich = &item["post"];
    // Each documented parameter is accepted.
    let params = enrich["parameters"].as_array().unwrap();
    let (headers, params): (Vec<_>, Vec<_>) = params.iter().partition(|it| it["in"] == "header");
    let headers: Vec<_> = headers
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    let expected = [
        "Content-Encoding",
        "Cache-Control",
        "Lookaside-Max-Staleness",
    ];
    assert_eq!(headers, expected);
    for param in &params {
        assert_eq!(param["in"], "query");
        let (name, schema) = (param["name"].as_str().unwrap(), &param["schema"]);
        let value = match (&schema["enum"], &schema["default"], name) {
            (Json::Array(_), _, "format") => "json",
            (Json::Array(words), ..) => words[0].as_str().unwrap(),
            (_, Json::Bool(_), _) => "true",
            _ => "host",
        };
        let target = format!("{path}?{name}={value}");
        // `columns` applies to CSV, and `summary` to lines of JSON.
        let accepted = match name {
            "summary" => "application/x-ndjson",
            _ => "text/csv",
        };
        let headers = [("Accept", accepted)];
        client.ask("POST", &target, &headers, b"").is(200);
    }
    let names = params.len();
    let refused = client.post(&format!("{path}?x=1"), "").is(400).json();
    let told = refused["detail"].as_str().unwrap();
    assert_eq!(names, 6, "{told}");
    let headers = enrich["responses"]["200"]["headers"].as_object().unwrap();
    let names: Vec<&String> = headers.keys().collect();
    assert_eq!(
        names,
        [
            "X-Dropped",
            "X-Events",
            "X-Failed",
            "X-Failure-Reason",
            "X-Reject-Reason",
            "X-Rejected"
        ]
    );
}

/// The types and examples of PostgreSQL in docs/TYPES.md.
fn documented_types() -> Vec<(String, String)> {
    let docs = include_str!("../../../../../docs/TYPES.md");
    let mut inside = false;
    let mut types = Vec::new();
    for line in docs.lines() {
        inside =
            line == "| type | becomes | for example | shown |" || inside && line.starts_with('|');
        if inside && line.starts_with("| `") {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            let code = |cell: &str| cell.trim_matches('`').to_owned();
            types.push((code(cells[0]), code(cells[2])));
        }
    }
    types
}

#[test]
fn issue_13_columns_of_postgresql_are_described_as_they_answer() {
    if !has_postgres() {
        return;
    }
    let types = documented_types();
    assert!(types.len() > 70, "{}", types.len());
    let mut config =
        "version = 2\n[[provider.sqldb]]\nname = 'pg'\nkind = 'embedded'\nversion = '18'\n"
            .to_owned();
    for (index, (_, example)) in types.iter().enumerate() {
        config.push_str(&format!(
            "[lookups.t{index}]\nsql = \"\"\"select {} as v\"\"\"\n",
            example.replace('\\', "\\\\").replace('"', "\\\"")
        ));
    }
    let project = Project::with(&[("knowdb.toml", &config)]);
    let running = serve(&project, &[]);
    let mut client = running.client();
    let document = document(&mut client, &[]);
    assert_eq!(faults(&document), [""; 0]);
    for (index, (name, _)) in types.iter().enumerate() {
        let path = format!("/v1/lookup/t{index}");
        let answer = client.get(&path).is(200);
        assert_described(&document, &path, "get", &answer);
        let schema = &document["paths"][&path]["get"]["responses"]["200"]["content"]["application/json"]
            ["schema"]["properties"]["v"];
        let expected = match &**name {
            "timestamptz" => json!({"type": ["string", "null"], "format": "date-time"}),
            "numeric" => json!({"type": ["string", "null"], "format": "decimal"}),
            "int8" => json!({"type": ["integer", "null"], "format": "int64"}),
            "json" | "jsonb" => json!({}),
            _ => {
                assert!(schema["type"].is_array(), "{name}: {schema}");
                continue;
            }
        };
        assert_eq!(*schema, expected, "{name}");
    }
}

#[test]
fn issue_13_columns_of_tables_are_described_as_they_answer() {
    let project = Project::with(&[
        (
            "derived/data.csv",
            "name,rack,load,up,code\na,1,0.5,true,007\nb,,2,false,x\n",
        ),
        (
            "declared/create.sql",
            "create table {table} (id integer primary key, n integer, odd integer, r real, d date, any)",
        ),
        (
            "declared/insert.sql",
            "insert into {table} values (?1, ?2, ?3, ?4, ?5, ?6)",
        ),
        (
            "declared/data.csv",
            "id,n,odd,r,d,any\n1,2,3,4,2026-01-31,5\n2,3,many,0.5,2026-02-01,x\n",
        ),
        (
            "knowdb.toml",
            "version = 2\n[[tables]]\nname = 'derived'\n[[tables]]\nname = 'declared'\n\
             [lookups.derived]\nsql = 'select * from derived where name = :name'\n\
             [lookups.declared]\nsql = 'select * from declared'\nmany = true\n\
             [lookups.joined]\nmany = true\nsql = 'select a.load, b.odd, b.n + 1 as sum, b.id from derived a left \
             join (select id, n, odd from declared) b on b.id = a.rack + 1'\n",
        ),
    ]);
    let running = serve(&project, &[]);
    let mut client = running.client();
    let document = document(&mut client, &[]);
    let int = json!({"type": ["integer", "null"], "format": "int64"});
    let float = json!({"type": ["number", "null"], "format": "double"});
    let text = json!({"type": ["string", "null"]});
    let unknown = json!({});
    for (path, query, expected) in [
        (
            "/v1/lookup/derived",
            "?name=a",
            json!({"name": text, "rack": int, "load": float, "up": text, "code": text}),
        ),
        (
            "/v1/lookup/declared",
            "",
            // A cell that is not a number makes the type of its column unknown, regardless of the
            // declared type.
            json!({"id": int, "n": int, "odd": unknown, "r": float, "d": unknown, "any": unknown}),
        ),
        (
            "/v1/lookup/joined",
            "",
            json!({"load": float, "odd": unknown, "sum": unknown, "id": int}),
        ),
    ] {
        let mut schema = &document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
            ["schema"];
        if schema["type"] == "array" {
            schema = &schema["items"];
        }
        assert_eq!(schema["properties"], expected, "{path}");
        let answer = client.get(&format!("{path}{query}")).is(200);
        assert_described(&document, path, "get", &answer);
    }
}

#[test]
fn issue_13_parameters_that_may_be_null_are_described() {
    let project = project(
        "[lookups.some]\nsql = 'select name from hosts where (:rack is null or rack = :rack) and name = :name'\n\
         params.rack = { type = 'int', nullable = true }\nparams.name = 'text'\nexample.name = 'web-1'\n",
    );
    let running = serve(&project, &[]);
    let mut client = running.client();
    let document = document(&mut client, &[]);
    assert_eq!(faults(&document), [""; 0]);
    let path = &document["paths"]["/v1/lookup/some"];
    let needed = |name: &str| {
        let params = path["get"]["parameters"].as_array().unwrap();
        let param = params.iter().find(|param| param["name"] == name).unwrap();
        param["required"].clone()
    };
    assert_eq!(
        (needed("rack"), needed("name")),
        (json!(false), json!(true))
    );
    let set = &path["post"]["requestBody"]["content"]["application/json"]["schema"]["items"];
    assert_eq!(set["required"], json!(["name"]));
    assert_eq!(
        set["properties"]["rack"]["type"],
        json!(["integer", "null"])
    );
    for (query, status) in [
        ("name=web-1", 200),
        ("name=web-1&rack=7", 200),
        ("name=web-1&rack=8", 404),
    ] {
        client.get(&format!("/v1/lookup/some?{query}")).is(status);
    }
    let body = r#"[{"name":"web-1"},{"name":"web-1","rack":null},{"name":"web-1","rack":8}]"#;
    let answer = client
        .post("/v1/lookup/some", body)
        .is(200)
        .text()
        .to_owned();
    assert_eq!(answer, r#"[{"name":"web-1"},{"name":"web-1"},null]"#);
    let lookups = client.get("/v1/lookups").is(200).json();
    let lookups = lookups["lookups"].as_array().unwrap();
    let some = lookups.iter().find(|it| it["name"] == "some").unwrap();
    assert_eq!(some["example"], "/v1/lookup/some?name=web-1");
}
