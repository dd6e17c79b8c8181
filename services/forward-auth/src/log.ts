import type { createLogger } from '@gatehouse/service-kit'

/** The logger that is passed in everywhere. */
export type Logger = ReturnType<typeof createLogger>
