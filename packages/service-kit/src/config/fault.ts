/** What is wrong with a value that the schema accepts. */
export interface Fault {
  /** JSON pointer of the key to blame. */
  readonly path: string
  readonly message: string
}

/** What a reader throws, as the fault of a key; none if it reads. */
export function faultOf(path: string, read: () => unknown): Fault[] {
  try {
    read()
    return []
  } catch (error) {
    return [{ path, message: (error as Error).message }]
  }
}
