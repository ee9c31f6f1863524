"""MLflow: runs, registered models and the gate. Only this package imports mlflow, and what MLflow runs (serving).

Every function that talks to the store raises `store.ServerUnreachable` if the store does not answer or fails, and
`store.CredentialsRefused` if it refuses the user.
"""
