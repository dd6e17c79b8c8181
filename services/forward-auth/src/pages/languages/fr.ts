import type { Texts } from './en.ts'

export const fr: Texts = {
  brand: 'Gatehouse',
  retry: 'Réessayer',
  requestId: 'Requête',
  details: 'Détails :',
  contact: 'Besoin d’aide ?',
  signIn: {
    title: 'Connexion',
    text: 'Pour continuer vers {host}',
    choices: 'Se connecter avec',
    failing: 'Ne répond pas pour le moment',
  },
  signedIn: {
    title: 'Vous êtes connecté',
    back: 'Continuer vers {host}',
    apps: 'Vos applications',
    noApps: 'Ce compte n’a encore accès à aucune application ici.',
    profile: 'Afficher mon profil',
    signOut: 'Se déconnecter',
  },
  sessions: {
    title: 'Vos sessions',
    here: 'Ce navigateur',
    device: '{browser} sous {system}',
    unknown: 'Appareil inconnu',
    address: 'Adresse IP',
    begun: 'Connexion',
    lastSeen: 'Dernière activité',
    ends: 'Expiration',
    hosts: 'Utilisée sur',
    end: 'Fermer la session',
    others: 'Fermer toutes les autres sessions',
    everywhere: 'Se déconnecter partout',
    more: 'Seules les {count} sessions les plus récentes sont affichées.',
    all: 'Sessions de tout le monde',
    whose: 'Adresse e-mail complète ou identifiant d’une personne',
    search: 'Rechercher',
    none: 'Aucune session trouvée.',
    endAll: 'Fermer toutes les sessions de cette personne',
  },
  consent: {
    title: 'Autoriser cette application à agir en votre nom ?',
    app: 'Demandé par',
    selfRegistered:
      'Une application qui s’est enregistrée elle-même. Personne n’a confirmé qui l’a créée.',
    callsItself: 'Dit s’appeler',
    answer: 'Accès donné à',
    opens: 'L’application de cet appareil qui ouvre les liens {scheme}',
    resource: 'Souhaite utiliser',
    scopes: 'Ce qu’elle pourra faire',
    loopback:
      'L’accès est donné à un programme de cet appareil, et n’importe quel programme qui s’y trouve peut ' +
      'être à l’origine de la demande. N’autorisez que si vous venez de lancer vous-même l’application.',
    allow: 'Autoriser',
    deny: 'Refuser',
  },
  agents: {
    title: 'Agents connectés',
    selfRegistered: 'S’est enregistré lui-même',
    resource: 'Peut utiliser',
    scopes: 'Autorisations',
    begun: 'Connexion',
    lastCall: 'Dernier appel',
    end: 'Déconnecter',
    more: 'Seuls les {count} agents les plus récents sont affichés.',
  },
  signOut: {
    title: 'Se déconnecter ?',
    text: 'Il faudra vous reconnecter à toutes les applications qui utilisent cette connexion.',
    confirm: 'Se déconnecter',
    stay: 'Rester connecté',
  },
  signedOut: {
    title: 'Vous êtes déconnecté',
    text: 'Vous pouvez fermer cette page.',
    notStored:
      'Votre session a été supprimée de ce navigateur, mais le serveur n’a pas pu enregistrer qu’elle est ' +
      'terminée. Si quelqu’un l’a copiée, la copie peut rester valable jusqu’au {end}. Merci de prévenir ' +
      'l’administrateur de ce site.',
    provider: 'Se déconnecter aussi de {provider}',
    signIn: 'Se reconnecter',
  },
  refused: {
    title: 'Accès impossible avec ce compte',
    text: 'Vous êtes connecté, mais ce compte n’a pas accès à cette page. Pour y accéder, adressez-vous à l’administrateur de ce site.',
    other: 'Utiliser un autre compte',
  },
  framed: {
    title: 'Connectez-vous pour voir ceci',
    text: 'La connexion demande sa propre fenêtre. Rechargez ensuite cette page.',
  },
  unsent: {
    title: 'Rien n’a encore été envoyé',
    text: 'L’application n’a rien reçu. Vous devez peut-être d’abord vous connecter.',
    reload:
      'Rechargez cette page et votre navigateur renverra tout. ' +
      'Si cette page réapparaît, connectez-vous d’abord. Ou revenez en arrière : votre saisie devrait y être encore.',
  },
  providerDown: {
    title: '{provider} ne répond pas',
    text: 'La connexion y est impossible pour le moment. Votre compte n’est pas en cause.',
    other: 'Se connecter autrement',
  },
  providerSays: 'Le fournisseur d’identité indique :',
  errors: {
    FWA_CALLBACK_FOREIGN: {
      title: 'Réponse d’un autre fournisseur',
      happened:
        'La réponse vient d’un autre fournisseur d’identité que celui avec lequel vous avez commencé.',
      next: 'Reprenez la connexion depuis le début. Si le problème se reproduit, prévenez l’administrateur.',
    },
    FWA_CLIENT_INVALID: {
      title: 'Client non accepté',
      happened:
        'L’application qui demande l’accès se décrit d’une manière que ce site n’accepte pas.',
      next: 'Prévenez les développeurs de l’application. Les détails figurent ci-dessous.',
    },
    FWA_CLIENT_RATE: {
      title: 'Trop de nouveaux clients',
      happened: 'Ce compte a utilisé trop de nouvelles applications en peu de temps.',
      next: 'Attendez une minute, puis réessayez.',
    },
    FWA_CLIENT_UNREACHABLE: {
      title: 'Description du client illisible',
      happened:
        'Ce site ne parvient pas à lire la description de l’application qui demande l’accès.',
      next: 'Réessayez dans un instant. Si cela ne suffit pas, prévenez les développeurs de l’application.',
    },
    FWA_COOKIES_BLOCKED: {
      title: 'Cookies non conservés',
      happened: 'Votre navigateur ne conserve pas les cookies de cette application.',
      next: 'Autorisez les cookies de ce site, ou ouvrez l’application dans un onglet à part.',
    },
    FWA_COOKIE_DUPLICATE: {
      title: 'Cookie de session envoyé deux fois',
      happened:
        'Un autre site a créé un second cookie de session : aucun des deux n’est donc accepté.',
      next: 'Supprimez les cookies de ce site dans votre navigateur, puis réessayez.',
    },
    FWA_FORBIDDEN: {
      title: 'Accès refusé à ce compte',
      happened: 'Ce compte n’a pas accès à cette page.',
      next: 'Utilisez un autre compte, ou demandez l’accès à l’administrateur de ce site.',
    },
    FWA_LOGIN_REFUSED: {
      title: 'Connexion refusée',
      happened: 'Le fournisseur d’identité a refusé de vous connecter.',
      next: 'Réessayez, ou utilisez un autre compte.',
    },
    FWA_LOGIN_UNKNOWN: {
      title: 'Connexion expirée ou commencée dans un autre navigateur',
      happened: 'La connexion a pris trop de temps, ou a commencé dans un autre navigateur.',
      next: 'Réessayez, et autorisez les cookies pour ce site.',
    },
    FWA_OAUTH_INVALID: {
      title: 'La demande de cette application n’est pas valide',
      happened:
        'L’application qui vous a envoyé ici a commis une erreur. Rien ne lui a été transmis.',
      next: 'Revenez à l’application et réessayez. Si le problème se reproduit, transmettez les informations ci-dessous à son développeur.',
    },
    FWA_ORIGIN_FOREIGN: {
      title: 'Requête provenant d’un autre site',
      happened: 'Un autre site a tenté de fermer une session. Rien n’a été modifié.',
      next: 'Pour fermer une session, utilisez les pages de ce site.',
    },
    FWA_PORTAL_UNKNOWN: {
      title: 'Portail inconnu',
      happened: 'Il n’y a pas de page de connexion à cette adresse.',
      next: 'Vérifiez l’adresse, ou ouvrez de nouveau l’application.',
    },
    FWA_PROVIDER_UNKNOWN: {
      title: 'Fournisseur inconnu',
      happened: 'Aucun fournisseur d’identité de cette page de connexion ne porte ce nom.',
      next: 'Ouvrez de nouveau l’application, et choisissez un fournisseur dans la liste.',
    },
    FWA_PROVIDER_UNREACHABLE: {
      title: 'Fournisseur injoignable',
      happened: 'Le fournisseur d’identité ne répond pas.',
      next: 'Réessayez dans un instant, ou connectez-vous autrement.',
    },
    FWA_SESSION_TOO_LARGE: {
      title: 'Session trop volumineuse',
      happened:
        'Le fournisseur d’identité a envoyé plus d’informations sur vous qu’un cookie ne peut en contenir.',
      next: 'Demandez à l’administrateur de retirer votre compte de certains groupes.',
    },
    FWA_SIGN_IN_LOOP: {
      title: 'Boucle de redirection',
      happened:
        'Vous êtes connecté, mais l’application vous renvoie sans cesse à la page de connexion.',
      next: 'Supprimez les cookies de ce site et autorisez les cookies. Si le problème persiste, prévenez l’administrateur.',
    },
    FWA_SIGN_IN_POLICY: {
      title: 'Lien de connexion non valide',
      happened: 'Le lien que vous avez suivi n’est plus valide.',
      next: 'Ouvrez de nouveau l’application pour obtenir un nouveau lien.',
    },
    FWA_SIGN_IN_RATE: {
      title: 'Trop de connexions',
      happened: 'Ce compte s’est connecté trop souvent en peu de temps.',
      next: 'Attendez une minute, puis réessayez.',
    },
    FWA_STEP_UP_UNMET: {
      title: 'Connexion insuffisante',
      happened:
        'Cette page exige une autre méthode de connexion, par exemple avec un second facteur.',
      next: 'Réessayez avec la méthode demandée. Si le problème persiste, prévenez l’administrateur.',
    },
    FWA_STORE_STALE: {
      title: 'Impossible de vérifier les sessions',
      happened: 'Pour le moment, ce site ne peut pas vérifier qui est connecté.',
      next: 'Réessayez dans quelques minutes.',
    },
    NOT_FOUND: {
      title: 'Page introuvable',
      happened: 'Il n’y a rien à cette adresse.',
      next: 'Vérifiez l’adresse, ou ouvrez de nouveau l’application.',
    },
    SETUP: {
      title: 'Ce site n’est pas correctement configuré',
      happened: 'Vous n’y êtes pour rien : la configuration de ce site doit être corrigée.',
      next: 'Transmettez les informations ci-dessous à son administrateur.',
    },
    INTERNAL: {
      title: 'Une erreur est survenue',
      happened: 'Une erreur s’est produite sur ce site et a été enregistrée.',
      next: 'Réessayez. Si elle se reproduit, transmettez les informations ci-dessous à l’administrateur.',
    },
    REQUEST: {
      title: 'Requête non comprise',
      happened: 'Ce site n’a pas compris la requête de votre navigateur.',
      next: 'Revenez en arrière et réessayez, ou ouvrez de nouveau l’application.',
    },
  },
}
