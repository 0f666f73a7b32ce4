"""HorizontalPodAutoscalers: as many pods as what they use asks for."""
