import { AcmeProblem } from '../../src/server/index.ts'

/** The problem that was thrown, undefined if nothing was; any other error fails the test. */
export function problemOf(run: () => unknown): AcmeProblem | undefined {
  try {
    run()
    return undefined
  } catch (error) {
    if (error instanceof AcmeProblem) return error
    throw error
  }
}
