"""Dashboard, API and metrics of the controller.

Read `facts` (what is shown, as plain values), `routes` (the table of what is served, and its description),
`app` (the server), `actions` (what an operator may do).
"""

from equipoise.web.app import make_app
from equipoise.web.facts import ClusterFacts
from equipoise.web.serving import Pages, serve
from equipoise.web.settings import WebSettings

__all__ = ["ClusterFacts", "Pages", "WebSettings", "make_app", "serve"]
