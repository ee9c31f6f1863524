-- Run once by the superuser of a new PostgreSQL (15 or newer), by psql: a role and databases of its own for each server.
-- A variable that is not set ends in a syntax error, and nothing is made.
\set ON_ERROR_STOP on
\getenv mlflow_password MLFLOW_DATABASE_PASSWORD
\getenv prefect_password PREFECT_DATABASE_PASSWORD

CREATE ROLE mlflow LOGIN PASSWORD :'mlflow_password';
CREATE ROLE prefect LOGIN PASSWORD :'prefect_password';

CREATE DATABASE mlflow OWNER mlflow;
CREATE DATABASE mlflow_users OWNER mlflow;
CREATE DATABASE prefect OWNER prefect;

REVOKE CONNECT ON DATABASE mlflow, mlflow_users, prefect FROM PUBLIC;
