"""Who may ask MLflow's server for what: users by name and password, and readers only to read.

MLflow alone lets each user create experiments and registered models, which are then that user's.
"""

from flask import Response, make_response, request
from mlflow.server.auth import authenticate_request_basic_auth
from werkzeug.datastructures import Authorization

READERS = ("reader",)  # compose.yaml makes this one for the server of models


def authenticate() -> Authorization | Response:
    """Return the user of a request, or the response to one that is refused."""
    user = authenticate_request_basic_auth()
    is_reader = isinstance(user, Authorization) and user.username in READERS
    if is_reader and request.method not in ("GET", "HEAD") and not request.path.endswith("/search"):
        return make_response(f"PERMISSION_DENIED: the user {user.username} may only read", 403)
    return user
