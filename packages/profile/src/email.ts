// RFC 5321 dot-string and domain, without quotes, comments, address literals and internationalised forms.
const LOCAL = /^[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*$/
const DOMAIN = /^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/i

/** Whether the value is a plain e-mail address with exactly one `@`. */
export function isEmailAddress(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > 254) return false
  const [local = '', domain = '', ...rest] = value.split('@')
  return rest.length === 0 && local.length <= 64 && LOCAL.test(local) && isEmailDomain(domain)
}

/** Whether the text can stand behind the `@`. */
export function isEmailDomain(text: string): boolean {
  return text.length <= 253 && DOMAIN.test(text)
}

/** What stands behind the `@`, in lower case. */
export function emailDomain(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1).toLowerCase()
}
