//! An account: its tables, the settings of its service.

use crate::address::table_path;
use crate::connection::{Connection, NoConnection};
use crate::error::Error;
use crate::filter::Filter;
use crate::http::{Call, Http, Options};
use crate::pages::read_list;
use crate::retry::Retry;
use crate::settings::{
    ServiceProperties, ServiceStats, read_properties, read_stats, write_properties,
};
use crate::table::Table;
use hyper::Method;
use serde_json::{Value as Json, json};

/// An account. Clones share their connections.
#[derive(Clone)]
pub struct Account {
    http: Http,
}

impl Account {
    /// The account that a connection string names, with default options. Nothing is asked yet.
    pub fn connect(connection_string: &str) -> Result<Account, NoConnection> {
        Ok(Account::new(Connection::parse(connection_string)?, Options::default()))
    }

    /// The account behind a connection. Nothing is asked yet.
    pub fn new(connection: Connection, options: Options) -> Account {
        Account { http: Http::new(connection, options) }
    }

    /// What it is reached by.
    pub fn connection(&self) -> &Connection {
        self.http.connection()
    }

    /// The same account with another rule for retries.
    #[must_use]
    pub fn with_retry(&self, retry: Retry) -> Account {
        Account { http: self.http.with_retry(retry) }
    }

    /// The table of that name, whether it exists or not.
    pub fn table(&self, name: impl Into<String>) -> Table {
        Table::new(self.http.clone(), name.into())
    }

    /// Makes a table; false where it exists already. After a lost answer it may be false for a
    /// table that this very call has made.
    pub async fn create_table(&self, name: &str) -> Result<bool, Error> {
        let call = Call::new(Method::POST, "/Tables")
            .header("Prefer", "return-no-content")
            .body("application/json", json!({ "TableName": name }).to_string());
        match self.http.call(&call).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some("TableAlreadyExists") => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes a table with all its entities; false where there is none. After a lost answer it
    /// is true for a table that is gone, whoever deleted it.
    pub async fn delete_table(&self, name: &str) -> Result<bool, Error> {
        match self.http.call(&Call::new(Method::DELETE, table_path(name))).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(error.maybe_done()),
            Err(error) => Err(error),
        }
    }

    /// Whether there is a table of that name.
    pub async fn table_exists(&self, name: &str) -> Result<bool, Error> {
        match self.http.call(&Call::new(Method::GET, table_path(name))).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The names of tables, page by page; `filter` compares `TableName`.
    pub fn tables(&self, filter: Option<Filter>) -> TableNames {
        let filter = filter.map(|filter| filter.as_str().to_owned());
        TableNames {
            http: self.http.clone(),
            filter,
            page_size: None,
            next: None,
            done: false,
            read: Vec::new(),
        }
    }

    /// The service's settings.
    pub async fn properties(&self) -> Result<ServiceProperties, Error> {
        let answer = self.http.call(&service(Method::GET, "properties")).await?;
        read_properties(&answer.body).map_err(Error::Garbled)
    }

    /// Sets the service's settings; what is `None` stays as it is.
    pub async fn set_properties(&self, properties: &ServiceProperties) -> Result<(), Error> {
        let call = service(Method::PUT, "properties");
        let call = call.body("application/xml", write_properties(properties));
        self.http.call(&call).await.map(drop)
    }

    /// How far the second region is. It is asked itself.
    pub async fn stats(&self) -> Result<ServiceStats, Error> {
        let call = Call { to_secondary: true, ..service(Method::GET, "stats") };
        let answer = self.http.call(&call).await?;
        read_stats(&answer.body).map_err(Error::Garbled)
    }
}

fn service(method: Method, comp: &str) -> Call {
    Call::new(method, "/").query("restype", "service").query("comp", comp)
}

/// The names of an account's tables, read as they are asked for.
#[derive(Clone)]
pub struct TableNames {
    http: Http,
    filter: Option<String>,
    page_size: Option<usize>,
    next: Option<String>,
    done: bool,
    read: Vec<String>,
}

impl TableNames {
    /// With so many names on a page, 1 to 1,000.
    #[must_use]
    pub fn page_size(mut self, names: usize) -> TableNames {
        self.page_size = Some(names);
        self
    }

    /// The next page; `None` behind the last one. It may be empty.
    pub async fn next_page(&mut self) -> Result<Option<Vec<String>>, Error> {
        if self.done {
            return Ok(None);
        }
        let mut call = Call::new(Method::GET, "/Tables");
        let options = [
            ("$filter", self.filter.clone()),
            ("$top", self.page_size.map(|size| size.to_string())),
            ("NextTableName", self.next.clone()),
        ];
        for (name, value) in options {
            call.query.extend(value.map(|value| (name, value)));
        }
        let answer = self.http.call(&call).await?;
        let name = |item: &Json| Some(item.get("TableName")?.as_str()?.to_owned());
        let names: Option<Vec<String>> = read_list(&answer)?.iter().map(name).collect();
        let names = names.ok_or_else(|| Error::Garbled("a table without a name".to_owned()))?;
        self.next = answer.continuation("x-ms-continuation-NextTableName")?;
        self.done = self.next.is_none();
        Ok(Some(names))
    }

    /// Every name that is left. What was read before an error, or before the call was given up, is
    /// kept for the next one.
    pub async fn all(&mut self) -> Result<Vec<String>, Error> {
        while let Some(page) = self.next_page().await? {
            self.read.extend(page);
        }
        Ok(std::mem::take(&mut self.read))
    }
}
