package fairlock
