"""MLflow: runs, registered models, and the gate. Only this package and the served code import mlflow.

Every function that uses the store raises `store.ServerUnreachable` if the store does not answer or fails, and
`store.CredentialsRefused` if it refuses the user.
"""
