//! `shard mcp`: a vault as a tool of an assistant, by the Model Context Protocol on standard input and
//! output.

use std::sync::Arc;

use anyhow::{Context, Result};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData,
    Implementation, InitializeResult, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{RoleServer, ServerHandler, ServiceExt};
use serde::Deserialize;
use serde_json::{Value, json};
use shard::{FetchWay, Filter};

use crate::desk::{Desk, DeskArguments, MOST, Question};
use crate::output::causes;

/// The tool's name.
const SEARCH: &str = "search";

pub fn run(arguments: &DeskArguments) -> Result<()> {
    let desk = Arc::new(Desk::open(arguments)?);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.context("cannot start")?.block_on(async {
        let service =
            Assistant { desk }.serve(stdio()).await.context("the client did not begin")?;
        service.waiting().await.context("the connection ended")?;
        Ok(())
    })
}

/// What an assistant talks to.
struct Assistant {
    desk: Arc<Desk>,
}

/// What it asks.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    query: String,
    k: Option<usize>,
    #[serde(rename = "where")]
    filter: Option<Value>,
}

impl ServerHandler for Assistant {
    fn get_info(&self) -> InitializeResult {
        let mut info = InitializeResult::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = Implementation::new("shard", env!("CARGO_PKG_VERSION"));
        let collection = self.desk.retriever().collection().ok().flatten();
        let blind = collection.as_ref().and_then(|held| held.blind());
        let hidden = match blind {
            Some(held) if held.cells().is_some() => {
                "neither the query nor which documents were found, but which cells of similar ones were \
                 asked for"
            }
            Some(_) => "neither the query nor which documents were found",
            None => "not the query, but which documents came into question",
        };
        info.instructions = Some(format!(
            "Searches a private collection of documents by meaning. The server that holds the collection \
             sees {hidden}."
        ));
        info
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![search_tool()]))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        (name == SEARCH).then(search_tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name != SEARCH {
            let problem = format!("there is no tool {:?}: there is {SEARCH:?}", request.name);
            return Err(ErrorData::invalid_params(problem, None));
        }
        let question = question(request.arguments.unwrap_or_default())
            .map_err(|problem| ErrorData::invalid_params(problem, None))?;
        let desk = self.desk.clone();
        let answered = tokio::task::spawn_blocking(move || found(&desk, &question)).await;
        let answered = answered
            .map_err(|_| ErrorData::internal_error("the search ended unexpectedly", None))?;
        Ok(match answered {
            Ok((found, notes)) => {
                let text = words(&found);
                let text = notes.iter().map(String::as_str).chain([text.as_str()]);
                let text = ContentBlock::text(text.collect::<Vec<_>>().join("\n\n"));
                let mut result = CallToolResult::success(vec![text]);
                result.structured_content = Some(json!({ "passages": found, "notes": notes }));
                result.into()
            }
            Err(error) => {
                CallToolResult::error(vec![ContentBlock::text(causes(&error).join(": "))]).into()
            }
        })
    }
}

fn search_tool() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "query": { "type": "string", "description": "What to look for, in words" },
            "k": {
                "type": "integer", "minimum": 1, "maximum": MOST, "default": 5,
                "description": "How many passages to return"
            },
            "where": {
                "type": "object",
                "description": "Only passages whose metadata fit, as {\"year\": {\"$gte\": 2020}}, not by \
                                their title or text; operators: $eq $ne $gt $gte $lt $lte $in $nin $exists $and $or $not"
            }
        },
        "required": ["query"],
        "additionalProperties": false
    });
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    let description =
        "Finds the passages of a private collection that are nearest in meaning to a query";
    Tool::new(SEARCH, description, schema)
        .with_title("Search the private collection")
        .with_annotations(ToolAnnotations::new().read_only(true))
}

fn question(arguments: JsonObject) -> Result<Question, String> {
    let asked: Asked =
        serde_json::from_value(Value::Object(arguments)).map_err(|error| error.to_string())?;
    let filter = asked.filter.as_ref().map(Filter::from_json).transpose();
    let filter = filter.map_err(|error| error.to_string())?;
    let question = Question::checked(asked.query, asked.k.unwrap_or(5), filter, FetchWay::Private);
    question.map_err(|error| error.to_string())
}

/// The passages, and what there is to say of the filter.
fn found(desk: &Desk, question: &Question) -> Result<(Vec<Value>, Vec<String>)> {
    let answered = desk.ask(question)?;
    Ok((answered.passages.iter().map(super::passages::report).collect(), answered.notes))
}

/// The passages for whoever reads text.
fn words(found: &[Value]) -> String {
    if found.is_empty() {
        return "Nothing was found.".to_owned();
    }
    let one = |passage: &Value| {
        let text = |name: &str| passage[name].as_str().unwrap_or_default().to_owned();
        let score = passage["score"].as_f64().unwrap_or_default();
        format!("[{}] {} (score {score:.3})\n{}", text("id"), text("title"), text("text"))
    };
    found.iter().map(one).collect::<Vec<_>>().join("\n\n")
}
