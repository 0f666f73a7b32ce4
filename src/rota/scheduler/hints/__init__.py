"""Why a pod waits and what would have to change: hint texts, required changes, the explanation document."""
