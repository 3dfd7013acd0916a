"""The laboratory: simulation, scenarios, workloads, experiments, benchmarks, demo. The product never imports it."""
