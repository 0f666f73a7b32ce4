"""What Prometheus, Alertmanager and Grafana need for a cluster, written from tables: alerts, recordings, dashboards."""
