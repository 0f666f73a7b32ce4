"""The built-in plugins, one per file. Each file can be read alone; the interfaces are in `rota.scheduler.framework`."""
