/** Everything that pages say. */
export const texts = {
  brand: 'Gatehouse',
  retry: 'Try again',
  requestId: 'Request',
  signIn: {
    title: 'Sign in',
    text: (host: string) => `Continue to ${host}`,
    choices: 'Sign in with',
    failing: 'Did not answer a moment ago',
  },
  signedIn: {
    title: 'You are signed in',
    profile: 'Show my profile',
    signOut: 'Sign out',
  },
  signOut: {
    title: 'Sign out?',
    text: 'Every app that relies on this sign-in will ask you to sign in again.',
    confirm: 'Sign out',
    stay: 'Stay signed in',
  },
  signedOut: {
    title: 'You are signed out',
    text: 'You can close this page.',
    notStored: (end: string) =>
      `Your session is gone from this browser, but the server could not write down that it has ended. If somebody has copied it, the copy may stay valid until ${end}. Please tell whoever runs this site.`,
    provider: (provider: string) => `Also sign out at ${provider}`,
    signIn: 'Sign in again',
  },
  refused: {
    title: 'No access with this account',
    text: 'You are signed in, but this account may not open this page. If it should, ask whoever runs this site.',
    other: 'Sign in as someone else',
  },
  providerDown: {
    title: (provider: string) => `${provider} does not answer`,
    text: 'Nobody can sign in there at the moment. Nothing is wrong with your account.',
    other: 'Sign in another way',
  },
} as const
