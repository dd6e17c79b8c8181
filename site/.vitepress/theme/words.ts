const COMMON = new Set(
  'a an and are as at be but by can do does for from get gets has have how i if in into is it its my no not of on one or so that the their them then there they this to too up use what when which who why will with without you your'.split(
    ' ',
  ),
)

/** A word that is searched for, unless every page has it: so questions are found by what they are about. */
export function wordOf(term: string): string | null {
  const word = term.toLowerCase()
  return COMMON.has(word) ? null : word
}
