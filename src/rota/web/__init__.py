"""The dashboard: the pages that every master serves below `/dashboard/`, their sessions, and their live views.

`application` stands before an API server and serves the pages; `sessions` and `request_rules` decide which requests of
a browser act as its user; `live` sends views to open tabs; `views/` reduces objects to what a page shows; `static/` has
the pages themselves. Details, logs and writes are the browser calling the API as the user: there is no second API.
"""
