"""Dashboard, API and metrics of the controller.

Read `facts` (the displayed data, as plain values), `routes` (the table of addresses, and its description),
`app` (the server), `actions` (operations of an operator).
"""

from equipoise.web.app import make_app
from equipoise.web.facts import ClusterFacts
from equipoise.web.serving import Pages, serve
from equipoise.web.settings import WebSettings

__all__ = ["ClusterFacts", "Pages", "WebSettings", "make_app", "serve"]
