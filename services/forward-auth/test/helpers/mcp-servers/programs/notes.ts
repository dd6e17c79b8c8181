/** The tools of all servers here: each prints a line when it runs. */
export const NOTES: Readonly<Record<string, () => string>> = {
  read_note: () => print('read_note', 'a note'),
  delete_note: () => print('delete_note', 'deleted'),
}

function print(name: string, text: string): string {
  process.stdout.write(`ran ${name}\n`)
  return text
}
