/** The claims behind the sample page. */
export const ADA = {
  sub: '5f0c2c1e',
  name: 'Ada Lovelace',
  given_name: 'Ada',
  family_name: 'Lovelace',
  email: 'ada@example.com',
  email_verified: true,
  picture: 'https://example.com/ada.png',
  groups: ['admin', 'ops'],
}
