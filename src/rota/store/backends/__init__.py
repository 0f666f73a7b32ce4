"""The databases that can hold the store; each backend passes the same contract tests
(`rota.testing.store_contract`).
"""
